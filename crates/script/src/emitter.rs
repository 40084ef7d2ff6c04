//! The code of one function while it is being made: instructions, registers, constants, and jumps whose targets are not known yet.
//!
//! Jumps to the same unknown place form a list through their targets, as in Lua's own compiler, which makes code in one pass and
//! never builds a tree: source that nests deeply in a tree cannot exhaust the stack of whoever walks it, since nobody does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::code::{
    CONSTANT, CONSTANTS_NEAR, Capture, Constant, Name, NameKind, Named, Op, Prototype, Varargs,
};
use crate::expression::{Binary, Expression, Kind, NO_JUMP, Unary};

/// No register.
const NO_REGISTER: u8 = 255;

/// Registers of one function.
const REGISTERS_MAX: usize = 250;

/// A block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) breaks: i32,
    pub(crate) locals: usize,
    pub(crate) has_upval: bool,
    pub(crate) is_loop: bool,
}

/// A constant as a key: numbers by what they are, zero having no sign.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConstantKey {
    Nil,
    Bool(bool),
    Number(u64),
    Text(Arc<[u8]>),
}

/// A function that is being compiled.
#[derive(Debug)]
pub(crate) struct Emitter {
    code: Vec<Op>,
    lines: Vec<u32>,
    constants: Vec<Constant>,
    constant_index: BTreeMap<ConstantKey, u32>,
    named: Vec<Named>,
    pub(crate) children: Vec<Arc<Prototype>>,
    /// Local variables in scope; each has the register of its index.
    pub(crate) locals: Vec<Arc<[u8]>>,
    pub(crate) upvals: Vec<(Arc<[u8]>, Capture)>,
    pub(crate) blocks: Vec<Block>,
    /// What temporary registers were called.
    register_names: Vec<Option<Name>>,
    free: usize,
    registers: usize,
    /// Jumps to the next instruction.
    pending: i32,
    pub(crate) signature: Signature,
}

/// How a function is called.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) params: u8,
    pub(crate) varargs: Varargs,
    pub(crate) line: u32,
    /// Where its instructions are thought to be.
    pub(crate) current_line: u32,
}

/// What is too much, to be completed with a position.
pub(crate) type TooMuch = &'static str;

type Made<T> = Result<T, TooMuch>;

impl Emitter {
    pub(crate) fn new(varargs: Varargs, line: u32) -> Self {
        Self {
            code: Vec::new(),
            lines: Vec::new(),
            constants: Vec::new(),
            constant_index: BTreeMap::new(),
            named: Vec::new(),
            children: Vec::new(),
            locals: Vec::new(),
            upvals: Vec::new(),
            blocks: Vec::new(),
            register_names: vec![None; 256],
            free: 0,
            registers: 2,
            pending: NO_JUMP,
            signature: Signature {
                params: 0,
                varargs,
                line,
                current_line: line,
            },
        }
    }

    pub(crate) fn finish(mut self, source: &Arc<[u8]>) -> Prototype {
        self.code.shrink_to_fit();
        self.lines.shrink_to_fit();
        self.named.shrink_to_fit();
        Prototype {
            code: self.code,
            lines: self.lines,
            constants: self.constants,
            children: self.children,
            captures: self.upvals.iter().map(|&(_, capture)| capture).collect(),
            named: self.named,
            source: Arc::clone(source),
            params: self.signature.params,
            varargs: self.signature.varargs,
            registers: self.registers as u8,
        }
    }

    // ---- instructions

    pub(crate) fn pc(&self) -> usize {
        self.code.len()
    }

    pub(crate) fn emit(&mut self, op: Op) -> usize {
        let here = self.pc() as i32;
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        self.patch(pending, here, NO_REGISTER, here);
        self.code.push(op);
        self.lines.push(self.signature.current_line);
        self.pc() - 1
    }

    pub(crate) fn set_line(&mut self, pc: usize, line: u32) {
        self.lines[pc] = line;
    }

    pub(crate) fn op_mut(&mut self, pc: usize) -> &mut Op {
        &mut self.code[pc]
    }

    /// Writes down what a register is called where an instruction uses it.
    pub(crate) fn note(&mut self, pc: usize, register: u8) {
        let name = match self.locals.get(usize::from(register)) {
            Some(text) => Some(Name {
                kind: NameKind::Local,
                text: Arc::clone(text),
            }),
            None => self.register_names[usize::from(register)].clone(),
        };
        if let Some(name) = name {
            self.named.push(Named {
                pc: pc as u32,
                register,
                name,
            });
        }
    }

    /// What a register is called no longer says what is in it.
    pub(crate) fn forget_name(&mut self, register: u8) {
        self.register_names[usize::from(register)] = None;
    }

    fn note_operand(&mut self, pc: usize, operand: u16) {
        if operand < CONSTANT {
            self.note(pc, operand as u8);
        }
    }

    // ---- registers

    pub(crate) fn free_register(&self) -> usize {
        self.free
    }

    pub(crate) fn set_free_register(&mut self, free: usize) {
        self.free = free;
    }

    pub(crate) fn check_stack(&mut self, count: usize) -> Made<()> {
        let needed = self.free + count;
        if needed > self.registers {
            if needed >= REGISTERS_MAX {
                return Err("function or expression too complex");
            }
            self.registers = needed;
        }
        Ok(())
    }

    pub(crate) fn reserve(&mut self, count: usize) -> Made<()> {
        self.check_stack(count)?;
        self.free += count;
        Ok(())
    }

    fn release(&mut self, register: u16) {
        if register < CONSTANT && usize::from(register) >= self.locals.len() {
            self.free -= 1;
            debug_assert_eq!(
                usize::from(register),
                self.free,
                "registers are freed from the top"
            );
        }
    }

    pub(crate) fn release_expression(&mut self, e: &Expression) {
        if let Kind::Fixed(register) = e.kind {
            self.release(u16::from(register));
        }
    }

    // ---- constants

    fn constant(&mut self, key: ConstantKey, constant: Constant) -> u32 {
        let next = self.constants.len() as u32;
        let index = *self.constant_index.entry(key).or_insert(next);
        if index == next {
            self.constants.push(constant);
        }
        index
    }

    pub(crate) fn text(&mut self, text: &Arc<[u8]>) -> u32 {
        self.constant(
            ConstantKey::Text(Arc::clone(text)),
            Constant::Text(Arc::clone(text)),
        )
    }

    fn number(&mut self, n: f64) -> u32 {
        let bits = if n == 0.0 { 0 } else { n.to_bits() };
        self.constant(ConstantKey::Number(bits), Constant::Number(n))
    }

    fn text_of(&self, operand: u16) -> Option<Arc<[u8]>> {
        match self.constants.get(usize::from(operand.checked_sub(CONSTANT)?)) {
            Some(Constant::Text(text)) => Some(Arc::clone(text)),
            _ => None,
        }
    }

    // ---- jumps

    fn target(&self, pc: i32) -> i32 {
        match self.code[pc as usize] {
            Op::Jump { by } | Op::ForLoop { by, .. } | Op::ForPrepare { by, .. } => {
                if by == NO_JUMP {
                    NO_JUMP
                } else {
                    pc + 1 + by
                }
            }
            _ => unreachable!("lists are of jumps"),
        }
    }

    fn set_target(&mut self, pc: i32, target: i32) {
        match &mut self.code[pc as usize] {
            Op::Jump { by } | Op::ForLoop { by, .. } | Op::ForPrepare { by, .. } => *by = target - (pc + 1),
            _ => unreachable!("lists are of jumps"),
        }
    }

    pub(crate) fn jump(&mut self) -> i32 {
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        let mut jump = self.emit(Op::Jump { by: NO_JUMP }) as i32;
        self.join(&mut jump, pending);
        jump
    }

    /// A place that is jumped to.
    pub(crate) fn label(&self) -> i32 {
        self.pc() as i32
    }

    /// The instruction that decides whether a jump is taken.
    fn control(&self, pc: i32) -> usize {
        let pc = pc as usize;
        if pc > 0
            && matches!(
                self.code[pc - 1],
                Op::Equal { .. }
                    | Op::Less { .. }
                    | Op::LessEqual { .. }
                    | Op::Test { .. }
                    | Op::TestSet { .. }
                    | Op::ForEach { .. }
            )
        {
            pc - 1
        } else {
            pc
        }
    }

    fn needs_value(&self, mut list: i32) -> bool {
        while list != NO_JUMP {
            if !matches!(self.code[self.control(list)], Op::TestSet { .. }) {
                return true;
            }
            list = self.target(list);
        }
        false
    }

    fn patch_test(&mut self, pc: i32, register: u8) -> bool {
        let control = self.control(pc);
        match self.code[control] {
            Op::TestSet { b, is, .. } => {
                self.code[control] = if register != NO_REGISTER && register != b {
                    Op::TestSet { a: register, b, is }
                } else {
                    Op::Test { a: b, is }
                };
                true
            }
            _ => false,
        }
    }

    fn remove_values(&mut self, mut list: i32) {
        while list != NO_JUMP {
            self.patch_test(list, NO_REGISTER);
            list = self.target(list);
        }
    }

    fn patch(&mut self, mut list: i32, values: i32, register: u8, others: i32) {
        while list != NO_JUMP {
            let next = self.target(list);
            let target = if self.patch_test(list, register) {
                values
            } else {
                others
            };
            self.set_target(list, target);
            list = next;
        }
    }

    pub(crate) fn patch_list(&mut self, list: i32, target: i32) {
        if target == self.pc() as i32 {
            self.patch_to_here(list);
        } else {
            self.patch(list, target, NO_REGISTER, target);
        }
    }

    pub(crate) fn patch_to_here(&mut self, list: i32) {
        let mut pending = self.pending;
        self.join(&mut pending, list);
        self.pending = pending;
    }

    pub(crate) fn join(&mut self, list: &mut i32, other: i32) {
        if other == NO_JUMP {
            return;
        }
        if *list == NO_JUMP {
            *list = other;
            return;
        }
        let mut last = *list;
        loop {
            let next = self.target(last);
            if next == NO_JUMP {
                break;
            }
            last = next;
        }
        self.set_target(last, other);
    }

    fn conditional(&mut self, op: Op) -> i32 {
        self.emit(op);
        self.jump()
    }

    fn invert(&mut self, jump: usize) {
        let control = self.control(jump as i32);
        match &mut self.code[control] {
            Op::Equal { is, .. } | Op::Less { is, .. } | Op::LessEqual { is, .. } => *is = !*is,
            _ => unreachable!("a comparison decides it"),
        }
    }

    // ---- expressions

    /// Takes so many values of a call or of `...`, `None` for all.
    pub(crate) fn set_results(&mut self, e: &Expression, want: Option<usize>) -> Made<()> {
        let count = want.map_or(0, |want| want as u8 + 1);
        match e.kind {
            Kind::Call(pc) => {
                if let Op::Call { results, .. } = &mut self.code[pc] {
                    *results = count;
                }
            }
            Kind::Vararg(pc) => {
                let register = self.free as u8;
                if let Op::Vararg { a, count: wanted } = &mut self.code[pc] {
                    *wanted = count;
                    *a = register;
                }
                self.reserve(1)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn one_result(&mut self, e: &mut Expression) {
        match e.kind {
            Kind::Call(pc) => {
                if let Op::Call { a, .. } = self.code[pc] {
                    e.kind = Kind::Fixed(a);
                }
            }
            Kind::Vararg(pc) => {
                if let Op::Vararg { count, .. } = &mut self.code[pc] {
                    *count = 2;
                }
                e.kind = Kind::Relocatable(pc);
            }
            _ => {}
        }
    }

    fn local_name(&self, register: u8) -> Option<Name> {
        self.locals.get(usize::from(register)).map(|text| Name {
            kind: NameKind::Local,
            text: Arc::clone(text),
        })
    }

    /// Turns a variable into a value.
    pub(crate) fn discharge(&mut self, e: &mut Expression) {
        match e.kind {
            Kind::Local(register) => {
                e.name = self.local_name(register);
                e.kind = Kind::Fixed(register);
            }
            Kind::Upval(upval) => {
                e.name = Some(Name {
                    kind: NameKind::Upvalue,
                    text: Arc::clone(&self.upvals[usize::from(upval)].0),
                });
                e.kind = Kind::Relocatable(self.emit(Op::GetUpval { a: 0, b: upval }));
            }
            Kind::Global(k) => {
                e.name = self.text_of_constant(k).map(|text| Name {
                    kind: NameKind::Global,
                    text,
                });
                e.kind = Kind::Relocatable(self.emit(Op::GetGlobal { a: 0, k }));
            }
            Kind::Indexed { table, key } => {
                self.release(key);
                self.release(u16::from(table));
                let text = self.text_of(key);
                let pc = match &text {
                    Some(_) => self.emit(Op::Field {
                        a: 0,
                        b: table,
                        k: key - CONSTANT,
                    }),
                    None => self.emit(Op::Index {
                        a: 0,
                        b: table,
                        c: key,
                    }),
                };
                self.note(pc, table);
                e.name = Some(Name {
                    kind: NameKind::Field,
                    text: text.unwrap_or_else(|| Arc::from(&b"?"[..])),
                });
                e.kind = Kind::Relocatable(pc);
            }
            Kind::Call(_) | Kind::Vararg(_) => self.one_result(e),
            Kind::Void
            | Kind::Nil
            | Kind::True
            | Kind::False
            | Kind::Number(_)
            | Kind::Constant(_)
            | Kind::Jump(_)
            | Kind::Relocatable(_)
            | Kind::Fixed(_) => {}
        }
    }

    fn text_of_constant(&self, k: u32) -> Option<Arc<[u8]>> {
        match &self.constants[k as usize] {
            Constant::Text(text) => Some(Arc::clone(text)),
            _ => None,
        }
    }

    fn set_register(&mut self, pc: usize, register: u8) {
        match &mut self.code[pc] {
            Op::GetUpval { a, .. }
            | Op::GetGlobal { a, .. }
            | Op::Index { a, .. }
            | Op::Field { a, .. }
            | Op::NewTable { a, .. }
            | Op::Add { a, .. }
            | Op::Sub { a, .. }
            | Op::Mul { a, .. }
            | Op::Div { a, .. }
            | Op::Mod { a, .. }
            | Op::Pow { a, .. }
            | Op::Minus { a, .. }
            | Op::Not { a, .. }
            | Op::Length { a, .. }
            | Op::Concat { a, .. }
            | Op::Closure { a, .. }
            | Op::Vararg { a, .. } => *a = register,
            other => unreachable!("{other:?} has no register to be chosen"),
        }
    }

    fn discharge_to(&mut self, e: &mut Expression, register: u8) {
        self.discharge(e);
        match e.kind {
            Kind::Nil => {
                self.emit(Op::Nil {
                    a: register,
                    b: register,
                });
            }
            Kind::True | Kind::False => {
                self.emit(Op::Bool {
                    a: register,
                    value: e.kind == Kind::True,
                    skip: false,
                });
            }
            Kind::Constant(k) => {
                self.emit(Op::Constant { a: register, k });
            }
            Kind::Number(n) => {
                let k = self.number(n);
                self.emit(Op::Constant { a: register, k });
            }
            Kind::Relocatable(pc) => self.set_register(pc, register),
            Kind::Fixed(from) => {
                if from != register {
                    self.emit(Op::Move { a: register, b: from });
                }
            }
            Kind::Void | Kind::Jump(_) => return,
            Kind::Local(_)
            | Kind::Upval(_)
            | Kind::Global(_)
            | Kind::Indexed { .. }
            | Kind::Call(_)
            | Kind::Vararg(_) => {
                unreachable!("it was discharged")
            }
        }
        e.kind = Kind::Fixed(register);
    }

    fn discharge_to_any(&mut self, e: &mut Expression) -> Made<()> {
        if !matches!(e.kind, Kind::Fixed(_)) {
            self.reserve(1)?;
            self.discharge_to(e, (self.free - 1) as u8);
        }
        Ok(())
    }

    fn load_register(&mut self, e: &mut Expression, register: u8) {
        self.discharge_to(e, register);
        if let Kind::Jump(pc) = e.kind {
            let mut list = e.if_true;
            self.join(&mut list, pc as i32);
            e.if_true = list;
        }
        if e.has_jumps() {
            let (mut when_false, mut when_true) = (NO_JUMP, NO_JUMP);
            if self.needs_value(e.if_true) || self.needs_value(e.if_false) {
                let over = if matches!(e.kind, Kind::Jump(_)) {
                    NO_JUMP
                } else {
                    self.jump()
                };
                when_false = self.emit(Op::Bool {
                    a: register,
                    value: false,
                    skip: true,
                }) as i32;
                when_true = self.emit(Op::Bool {
                    a: register,
                    value: true,
                    skip: false,
                }) as i32;
                self.patch_to_here(over);
            }
            let end = self.label();
            self.patch(e.if_false, end, register, when_false);
            self.patch(e.if_true, end, register, when_true);
            e.name = None;
        }
        e.if_true = NO_JUMP;
        e.if_false = NO_JUMP;
        e.kind = Kind::Fixed(register);
        self.register_names[usize::from(register)] = e.name.clone();
    }

    pub(crate) fn load_next_register(&mut self, e: &mut Expression) -> Made<()> {
        self.discharge(e);
        self.release_expression(e);
        self.reserve(1)?;
        self.load_register(e, (self.free - 1) as u8);
        Ok(())
    }

    pub(crate) fn load_any_register(&mut self, e: &mut Expression) -> Made<u8> {
        self.discharge(e);
        if let Kind::Fixed(register) = e.kind {
            if !e.has_jumps() {
                return Ok(register);
            }
            if usize::from(register) >= self.locals.len() {
                self.load_register(e, register);
                return Ok(register);
            }
        }
        self.load_next_register(e)?;
        match e.kind {
            Kind::Fixed(register) => Ok(register),
            _ => unreachable!("it was put into a register"),
        }
    }

    pub(crate) fn load_value(&mut self, e: &mut Expression) -> Made<()> {
        if e.has_jumps() {
            self.load_any_register(e)?;
        } else {
            self.discharge(e);
        }
        Ok(())
    }

    /// A register or a constant.
    pub(crate) fn load_operand(&mut self, e: &mut Expression) -> Made<u16> {
        self.load_value(e)?;
        let k = match e.kind {
            Kind::Nil if self.constants.len() < CONSTANTS_NEAR => {
                self.constant(ConstantKey::Nil, Constant::Nil)
            }
            Kind::True | Kind::False if self.constants.len() < CONSTANTS_NEAR => {
                let value = e.kind == Kind::True;
                self.constant(ConstantKey::Bool(value), Constant::Bool(value))
            }
            Kind::Number(n) if self.constants.len() < CONSTANTS_NEAR => self.number(n),
            Kind::Constant(k) => k,
            _ => return self.load_any_register(e).map(u16::from),
        };
        if (k as usize) < CONSTANTS_NEAR {
            e.kind = Kind::Constant(k);
            Ok(k as u16 + CONSTANT)
        } else {
            self.load_any_register(e).map(u16::from)
        }
    }

    pub(crate) fn store(&mut self, variable: &Expression, e: &mut Expression) -> Made<()> {
        match variable.kind {
            Kind::Local(register) => {
                self.release_expression(e);
                self.load_register(e, register);
                return Ok(());
            }
            Kind::Upval(upval) => {
                let a = self.load_any_register(e)?;
                self.emit(Op::SetUpval { a, b: upval });
            }
            Kind::Global(k) => {
                let a = self.load_any_register(e)?;
                self.emit(Op::SetGlobal { a, k });
            }
            Kind::Indexed { table, key } => {
                let c = self.load_operand(e)?;
                let pc = match self.text_of(key) {
                    Some(_) => self.emit(Op::SetField {
                        a: table,
                        k: key - CONSTANT,
                        c,
                    }),
                    None => self.emit(Op::SetIndex { a: table, b: key, c }),
                };
                self.note(pc, table);
            }
            _ => unreachable!("only variables are assigned to"),
        }
        self.release_expression(e);
        Ok(())
    }

    /// The same where the caller frees the registers.
    pub(crate) fn store_kept(&mut self, variable: &Expression, e: &mut Expression) -> Made<()> {
        let free = self.free;
        self.store(variable, e)?;
        self.free = free;
        Ok(())
    }

    /// One value of what may be several.
    pub(crate) fn one_value(&mut self, e: &mut Expression) -> Made<()> {
        self.one_result(e);
        Ok(())
    }

    pub(crate) fn method(&mut self, e: &mut Expression, key: &mut Expression) -> Made<()> {
        let b = self.load_any_register(e)?;
        self.release_expression(e);
        let a = self.free as u8;
        self.reserve(2)?;
        let c = self.load_operand(key)?;
        let pc = self.emit(Op::Method { a, b, c });
        self.note(pc, b);
        self.release_expression(key);
        e.kind = Kind::Fixed(a);
        e.name = self.text_of(c).map(|text| Name {
            kind: NameKind::Method,
            text,
        });
        self.register_names[usize::from(a)] = e.name.clone();
        self.register_names[usize::from(a) + 1] = None;
        Ok(())
    }

    pub(crate) fn indexed(&mut self, table: &mut Expression, key: &mut Expression) -> Made<()> {
        let key = self.load_operand(key)?;
        match table.kind {
            Kind::Fixed(register) => table.kind = Kind::Indexed { table: register, key },
            _ => unreachable!("the table is in a register"),
        }
        Ok(())
    }

    fn jump_on(&mut self, e: &mut Expression, is: bool) -> Made<i32> {
        if let Kind::Relocatable(pc) = e.kind
            && let Op::Not { b, .. } = self.code[pc]
        {
            // The negation goes: the jump is taken in the other case.
            self.code.pop();
            self.lines.pop();
            return Ok(self.conditional(Op::Test { a: b, is: !is }));
        }
        self.discharge_to_any(e)?;
        self.release_expression(e);
        match e.kind {
            Kind::Fixed(b) => Ok(self.conditional(Op::TestSet {
                a: NO_REGISTER,
                b,
                is,
            })),
            _ => unreachable!("it was put into a register"),
        }
    }

    pub(crate) fn go_if_true(&mut self, e: &mut Expression) -> Made<()> {
        self.discharge(e);
        let jump = match e.kind {
            Kind::Constant(_) | Kind::Number(_) | Kind::True => NO_JUMP,
            Kind::False => self.jump(),
            Kind::Jump(pc) => {
                self.invert(pc);
                pc as i32
            }
            _ => self.jump_on(e, false)?,
        };
        let mut list = e.if_false;
        self.join(&mut list, jump);
        e.if_false = list;
        self.patch_to_here(e.if_true);
        e.if_true = NO_JUMP;
        Ok(())
    }

    fn go_if_false(&mut self, e: &mut Expression) -> Made<()> {
        self.discharge(e);
        let jump = match e.kind {
            Kind::Nil | Kind::False => NO_JUMP,
            Kind::True => self.jump(),
            Kind::Jump(pc) => pc as i32,
            _ => self.jump_on(e, true)?,
        };
        let mut list = e.if_true;
        self.join(&mut list, jump);
        e.if_true = list;
        self.patch_to_here(e.if_false);
        e.if_false = NO_JUMP;
        Ok(())
    }

    fn negate(&mut self, e: &mut Expression) -> Made<()> {
        self.discharge(e);
        match e.kind {
            Kind::Nil | Kind::False => e.kind = Kind::True,
            Kind::Constant(_) | Kind::Number(_) | Kind::True => e.kind = Kind::False,
            Kind::Jump(pc) => self.invert(pc),
            _ => {
                self.discharge_to_any(e)?;
                self.release_expression(e);
                let Kind::Fixed(b) = e.kind else {
                    unreachable!("it was put into a register")
                };
                e.kind = Kind::Relocatable(self.emit(Op::Not { a: 0, b }));
            }
        }
        e.name = None;
        std::mem::swap(&mut e.if_true, &mut e.if_false);
        self.remove_values(e.if_false);
        self.remove_values(e.if_true);
        Ok(())
    }

    pub(crate) fn prefix(&mut self, operator: Unary, e: &mut Expression) -> Made<()> {
        match operator {
            Unary::Not => return self.negate(e),
            Unary::Minus => {
                if let Some(n) = e.number() {
                    e.kind = Kind::Number(-n);
                    return Ok(());
                }
            }
            Unary::Length => {}
        }
        let b = self.load_any_register(e)?;
        self.release_expression(e);
        let pc = self.emit(match operator {
            Unary::Minus => Op::Minus { a: 0, b },
            Unary::Length | Unary::Not => Op::Length { a: 0, b },
        });
        self.note(pc, b);
        e.kind = Kind::Relocatable(pc);
        e.name = None;
        Ok(())
    }

    /// Before the right operand is read.
    pub(crate) fn infix(&mut self, operator: Binary, e: &mut Expression) -> Made<()> {
        match operator {
            Binary::And => self.go_if_true(e),
            Binary::Or => self.go_if_false(e),
            Binary::Concat => self.load_next_register(e),
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Mod | Binary::Pow => {
                if e.number().is_none() {
                    self.load_operand(e)?;
                }
                Ok(())
            }
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => self.load_operand(e).map(|_| ()),
        }
    }

    /// Behind it.
    pub(crate) fn postfix(
        &mut self,
        operator: Binary,
        left: &mut Expression,
        right: &mut Expression,
    ) -> Made<()> {
        match operator {
            Binary::And => {
                self.discharge(right);
                let mut list = right.if_false;
                self.join(&mut list, left.if_false);
                right.if_false = list;
                *left = right.clone();
            }
            Binary::Or => {
                self.discharge(right);
                let mut list = right.if_true;
                self.join(&mut list, left.if_true);
                right.if_true = list;
                *left = right.clone();
            }
            Binary::Concat => return self.concatenate(left, right),
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Mod | Binary::Pow => {
                return self.arithmetic(operator, left, right);
            }
            Binary::Equal => {
                return self.comparison(left, right, true, |is, b, c| Op::Equal { is, b, c }, false);
            }
            Binary::NotEqual => {
                return self.comparison(left, right, false, |is, b, c| Op::Equal { is, b, c }, false);
            }
            Binary::Less => {
                return self.comparison(left, right, true, |is, b, c| Op::Less { is, b, c }, false);
            }
            Binary::LessEqual => {
                return self.comparison(left, right, true, |is, b, c| Op::LessEqual { is, b, c }, false);
            }
            Binary::Greater => {
                return self.comparison(left, right, true, |is, b, c| Op::Less { is, b, c }, true);
            }
            Binary::GreaterEqual => {
                return self.comparison(left, right, true, |is, b, c| Op::LessEqual { is, b, c }, true);
            }
        }
        Ok(())
    }

    fn concatenate(&mut self, left: &mut Expression, right: &mut Expression) -> Made<()> {
        self.load_value(right)?;
        let Kind::Fixed(first) = left.kind else {
            unreachable!("the left operand was put into a register")
        };
        if let Kind::Relocatable(pc) = right.kind
            && let Op::Concat { b, .. } = &mut self.code[pc]
        {
            *b = first;
            self.release_expression(left);
            self.note(pc, first);
            left.kind = Kind::Relocatable(pc);
        } else {
            self.load_next_register(right)?;
            let Kind::Fixed(last) = right.kind else {
                unreachable!("it was put into a register")
            };
            self.release_expression(right);
            self.release_expression(left);
            let pc = self.emit(Op::Concat {
                a: 0,
                b: first,
                c: last,
            });
            self.note(pc, first);
            self.note(pc, last);
            left.kind = Kind::Relocatable(pc);
        }
        left.name = None;
        Ok(())
    }

    fn arithmetic(&mut self, operator: Binary, left: &mut Expression, right: &mut Expression) -> Made<()> {
        if let (Some(a), Some(b)) = (left.number(), right.number())
            && let Some(folded) = fold(operator, a, b)
        {
            left.kind = Kind::Number(folded);
            return Ok(());
        }
        let c = self.load_operand(right)?;
        let b = self.load_operand(left)?;
        if b > c {
            self.release_expression(left);
            self.release_expression(right);
        } else {
            self.release_expression(right);
            self.release_expression(left);
        }
        let pc = self.emit(match operator {
            Binary::Add => Op::Add { a: 0, b, c },
            Binary::Sub => Op::Sub { a: 0, b, c },
            Binary::Mul => Op::Mul { a: 0, b, c },
            Binary::Div => Op::Div { a: 0, b, c },
            Binary::Mod => Op::Mod { a: 0, b, c },
            _ => Op::Pow { a: 0, b, c },
        });
        self.note_operand(pc, b);
        self.note_operand(pc, c);
        left.kind = Kind::Relocatable(pc);
        left.name = None;
        Ok(())
    }

    fn comparison(
        &mut self,
        left: &mut Expression,
        right: &mut Expression,
        is: bool,
        op: fn(bool, u16, u16) -> Op,
        is_swapped: bool,
    ) -> Made<()> {
        let mut b = self.load_operand(left)?;
        let mut c = self.load_operand(right)?;
        self.release_expression(right);
        self.release_expression(left);
        if is_swapped {
            std::mem::swap(&mut b, &mut c);
        }
        left.kind = Kind::Jump(self.conditional(op(is, b, c)) as usize);
        left.name = None;
        Ok(())
    }

    pub(crate) fn return_values(&mut self, first: usize, count: Option<usize>) {
        self.emit(Op::Return {
            a: first as u8,
            count: count.map_or(0, |count| count as u8 + 1),
        });
    }

    pub(crate) fn set_list(&mut self, base: u8, stored: usize, pending: Option<usize>) -> Made<()> {
        let from = (stored - 1) / FIELDS_PER_FLUSH * FIELDS_PER_FLUSH + 1;
        self.emit(Op::SetList {
            a: base,
            count: pending.unwrap_or(0) as u8,
            from: u32::try_from(from).map_err(|_| "table constructor too long")?,
        });
        self.free = usize::from(base) + 1;
        Ok(())
    }
}

/// Values of a constructor that are kept in registers before they are stored.
pub(crate) const FIELDS_PER_FLUSH: usize = 50;

/// The result of an operation on constants, if it is the same on every machine and can be written as a constant.
fn fold(operator: Binary, a: f64, b: f64) -> Option<f64> {
    let result = match operator {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div if b != 0.0 => a / b,
        Binary::Mod if b != 0.0 => crate::arithmetic::modulo(a, b),
        Binary::Pow => libm::pow(a, b),
        _ => return None,
    };
    (!result.is_nan()).then_some(result)
}
