//! Source into code, in one pass.
//!
//! The grammar is that of the manual of Lua 5.1, section 8; the messages are those of its compiler. Nesting is limited, so that no
//! source is too deep for the stack of this process.

use std::sync::Arc;

use crate::code::{Capture, Op, Prototype, Varargs};
use crate::emitter::{Block, Emitter, FIELDS_PER_FLUSH, TooMuch};
use crate::expression::{Binary, Expression, Kind, NO_JUMP, UNARY_PRIORITY, Unary};
use crate::lexer::{Keyword, Lexer, SyntaxError, Token, chunk_id};

/// Blocks, functions, constructors and parentheses within each other.
const LEVELS_MAX: usize = 200;

/// Local variables of one function, and captured ones.
const LOCALS_MAX: usize = 200;
const UPVALS_MAX: usize = 60;

type Parsed<T> = Result<T, SyntaxError>;

struct Compiler<'a> {
    lexer: Lexer<'a>,
    /// The functions that are open, the innermost last.
    functions: Vec<Emitter>,
    source: Arc<[u8]>,
    level: usize,
}

/// Compiles a chunk. `name` is as Lua has it: `@file`, `=name`, or the source itself.
///
/// # Errors
/// A message with a position, in Lua's words.
pub(crate) fn compile(source: &[u8], name: &[u8]) -> Parsed<Arc<Prototype>> {
    let mut compiler = Compiler {
        lexer: Lexer::new(source, chunk_id(name)),
        functions: vec![Emitter::new(Varargs::Dots, 0)],
        source: Arc::from(name),
        level: 0,
    };
    compiler.next()?;
    compiler.enter_block(false);
    compiler.chunk()?;
    compiler.check(&Token::End)?;
    compiler.leave_block()?;
    compiler.top().return_values(0, Some(0));
    let emitter = compiler.functions.pop().expect("the main function is open");
    Ok(Arc::new(emitter.finish(&compiler.source)))
}

/// A place that is assigned to.
struct Target {
    variable: Expression,
}

impl Compiler<'_> {
    fn top(&mut self) -> &mut Emitter {
        let line = self.lexer.last_line;
        let top = self.functions.last_mut().expect("the main function is open");
        top.signature.current_line = line;
        top
    }

    fn made<T>(&self, result: Result<T, TooMuch>) -> Parsed<T> {
        result.map_err(|message| self.lexer.error(message))
    }

    fn too_many(&self, what: &str, limit: usize) -> SyntaxError {
        let line = self
            .functions
            .last()
            .map_or(0, |function| function.signature.line);
        let message = if line == 0 {
            format!("main function has more than {limit} {what}")
        } else {
            format!("function at line {line} has more than {limit} {what}")
        };
        self.lexer.error_plain(&message)
    }

    fn next(&mut self) -> Parsed<()> {
        self.lexer.next()
    }

    fn is(&self, token: &Token) -> bool {
        self.lexer.token == *token
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.lexer.token == Token::Keyword(keyword)
    }

    fn accept(&mut self, token: &Token) -> Parsed<bool> {
        let found = self.is(token);
        if found {
            self.next()?;
        }
        Ok(found)
    }

    fn expected(&self, token: &Token) -> SyntaxError {
        let word = String::from_utf8_lossy(&token.word()).into_owned();
        self.lexer.error(&format!("'{word}' expected"))
    }

    fn check(&self, token: &Token) -> Parsed<()> {
        if self.is(token) {
            Ok(())
        } else {
            Err(self.expected(token))
        }
    }

    fn expect(&mut self, token: &Token) -> Parsed<()> {
        self.check(token)?;
        self.next()
    }

    fn expect_match(&mut self, what: &Token, who: &Token, line: u32) -> Parsed<()> {
        if self.is(what) {
            return self.next();
        }
        if line == self.lexer.line {
            return Err(self.expected(what));
        }
        let (what, who) = (what.word(), who.word());
        let message = format!(
            "'{}' expected (to close '{}' at line {line})",
            String::from_utf8_lossy(&what),
            String::from_utf8_lossy(&who)
        );
        Err(self.lexer.error(&message))
    }

    fn name(&mut self) -> Parsed<Arc<[u8]>> {
        let Token::Name(name) = &self.lexer.token else {
            return Err(self.expected(&Token::Name(Vec::new())));
        };
        let name = Arc::from(&name[..]);
        self.next()?;
        Ok(name)
    }

    fn enter(&mut self) -> Parsed<()> {
        self.level += 1;
        if self.level > LEVELS_MAX {
            return Err(self.lexer.error_plain("chunk has too many syntax levels"));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.level -= 1;
    }

    // ---- variables and blocks

    fn add_local(&mut self, name: Arc<[u8]>) -> Parsed<()> {
        if self.top().locals.len() >= LOCALS_MAX {
            return Err(self.too_many("local variables", LOCALS_MAX));
        }
        self.top().locals.push(name);
        Ok(())
    }

    fn enter_block(&mut self, is_loop: bool) {
        let top = self.top();
        let block = Block {
            breaks: NO_JUMP,
            locals: top.locals.len(),
            has_upval: false,
            is_loop,
        };
        top.blocks.push(block);
    }

    fn leave_block(&mut self) -> Parsed<()> {
        let top = self.top();
        let block = top.blocks.pop().expect("a block that is left was entered");
        top.locals.truncate(block.locals);
        if block.has_upval {
            top.emit(Op::Close {
                a: block.locals as u8,
            });
        }
        let free = top.locals.len();
        top.set_free_register(free);
        top.patch_to_here(block.breaks);
        Ok(())
    }

    /// Finds a variable, from the innermost function outwards.
    fn resolve(&mut self, function: usize, name: &Arc<[u8]>, is_base: bool) -> Parsed<Kind> {
        let emitter = &mut self.functions[function];
        if let Some(register) = emitter.locals.iter().rposition(|local| local == name) {
            if !is_base {
                let block = emitter
                    .blocks
                    .iter_mut()
                    .rev()
                    .find(|block| block.locals <= register)
                    .expect("a local variable belongs to a block");
                block.has_upval = true;
            }
            return Ok(Kind::Local(register as u8));
        }
        if let Some(upval) = emitter.upvals.iter().position(|(upval, _)| upval == name) {
            return Ok(Kind::Upval(upval as u8));
        }
        if function == 0 {
            return Ok(Kind::Void);
        }
        let capture = match self.resolve(function - 1, name, false)? {
            Kind::Local(register) => Capture::Register(register),
            Kind::Upval(upval) => Capture::Upval(upval),
            _ => return Ok(Kind::Void),
        };
        let emitter = &mut self.functions[function];
        if emitter.upvals.len() >= UPVALS_MAX {
            return Err(self.too_many("upvalues", UPVALS_MAX));
        }
        emitter.upvals.push((Arc::clone(name), capture));
        Ok(Kind::Upval((emitter.upvals.len() - 1) as u8))
    }

    fn variable(&mut self, name: &Arc<[u8]>) -> Parsed<Expression> {
        let kind = match self.resolve(self.functions.len() - 1, name, true)? {
            Kind::Void => Kind::Global(self.top().text(name)),
            kind => kind,
        };
        Ok(Expression::new(kind))
    }

    // ---- statements

    fn ends_block(&self) -> bool {
        matches!(
            self.lexer.token,
            Token::End | Token::Keyword(Keyword::Else | Keyword::Elseif | Keyword::End | Keyword::Until)
        )
    }

    fn chunk(&mut self) -> Parsed<()> {
        self.enter()?;
        let mut is_last = false;
        while !is_last && !self.ends_block() {
            is_last = self.statement()?;
            self.accept(&Token::Char(b';'))?;
            let top = self.top();
            let free = top.locals.len();
            top.set_free_register(free);
        }
        self.leave();
        Ok(())
    }

    fn block(&mut self) -> Parsed<()> {
        self.enter_block(false);
        self.chunk()?;
        self.leave_block()
    }

    /// True if nothing can follow in its block.
    fn statement(&mut self) -> Parsed<bool> {
        let line = self.lexer.line;
        let Token::Keyword(keyword) = self.lexer.token else {
            self.expression_statement()?;
            return Ok(false);
        };
        match keyword {
            Keyword::If => self.if_statement(line)?,
            Keyword::While => self.while_statement(line)?,
            Keyword::Do => {
                self.next()?;
                self.block()?;
                self.expect_match(&Token::Keyword(Keyword::End), &Token::Keyword(Keyword::Do), line)?;
            }
            Keyword::For => self.for_statement(line)?,
            Keyword::Repeat => self.repeat_statement(line)?,
            Keyword::Function => self.function_statement(line)?,
            Keyword::Local => {
                self.next()?;
                if self.accept(&Token::Keyword(Keyword::Function))? {
                    self.local_function()?;
                } else {
                    self.local_statement()?;
                }
            }
            Keyword::Return => {
                self.return_statement()?;
                return Ok(true);
            }
            Keyword::Break => {
                self.next()?;
                self.break_statement()?;
                return Ok(true);
            }
            Keyword::And
            | Keyword::Else
            | Keyword::Elseif
            | Keyword::End
            | Keyword::False
            | Keyword::In
            | Keyword::Nil
            | Keyword::Not
            | Keyword::Or
            | Keyword::Then
            | Keyword::True
            | Keyword::Until => self.expression_statement()?,
        }
        Ok(false)
    }

    fn condition(&mut self) -> Parsed<i32> {
        let mut e = self.expression()?;
        if e.kind == Kind::Nil {
            e.kind = Kind::False;
        }
        let result = self.top().go_if_true(&mut e);
        self.made(result)?;
        Ok(e.if_false)
    }

    fn then_block(&mut self) -> Parsed<i32> {
        self.next()?;
        let exit = self.condition()?;
        self.expect(&Token::Keyword(Keyword::Then))?;
        self.block()?;
        Ok(exit)
    }

    fn if_statement(&mut self, line: u32) -> Parsed<()> {
        let mut escapes = NO_JUMP;
        let mut exit = self.then_block()?;
        while self.is_keyword(Keyword::Elseif) {
            let jump = self.top().jump();
            self.top().join(&mut escapes, jump);
            self.top().patch_to_here(exit);
            exit = self.then_block()?;
        }
        if self.is_keyword(Keyword::Else) {
            let jump = self.top().jump();
            self.top().join(&mut escapes, jump);
            self.top().patch_to_here(exit);
            self.next()?;
            self.block()?;
        } else {
            self.top().join(&mut escapes, exit);
        }
        self.top().patch_to_here(escapes);
        self.expect_match(&Token::Keyword(Keyword::End), &Token::Keyword(Keyword::If), line)
    }

    fn while_statement(&mut self, line: u32) -> Parsed<()> {
        self.next()?;
        let start = self.top().label();
        let exit = self.condition()?;
        self.enter_block(true);
        self.expect(&Token::Keyword(Keyword::Do))?;
        self.block()?;
        let back = self.top().jump();
        self.top().patch_list(back, start);
        self.expect_match(
            &Token::Keyword(Keyword::End),
            &Token::Keyword(Keyword::While),
            line,
        )?;
        self.leave_block()?;
        self.top().patch_to_here(exit);
        Ok(())
    }

    fn repeat_statement(&mut self, line: u32) -> Parsed<()> {
        let start = self.top().label();
        self.enter_block(true);
        self.enter_block(false);
        self.next()?;
        self.chunk()?;
        self.expect_match(
            &Token::Keyword(Keyword::Until),
            &Token::Keyword(Keyword::Repeat),
            line,
        )?;
        // The condition sees the variables of the block.
        let exit = self.condition()?;
        let has_upval = self.top().blocks.last().is_some_and(|block| block.has_upval);
        if has_upval {
            self.break_statement()?;
            self.top().patch_to_here(exit);
            self.leave_block()?;
            let back = self.top().jump();
            self.top().patch_list(back, start);
        } else {
            self.leave_block()?;
            self.top().patch_list(exit, start);
        }
        self.leave_block()
    }

    fn break_statement(&mut self) -> Parsed<()> {
        let top = self.top();
        let mut has_upval = false;
        let mut found = None;
        for (index, block) in top.blocks.iter().enumerate().rev() {
            if block.is_loop {
                found = Some(index);
                break;
            }
            has_upval |= block.has_upval;
        }
        let Some(index) = found else {
            return Err(self.lexer.error("no loop to break"));
        };
        if has_upval {
            let a = top.blocks[index].locals as u8;
            top.emit(Op::Close { a });
        }
        let jump = top.jump();
        let mut breaks = top.blocks[index].breaks;
        top.join(&mut breaks, jump);
        top.blocks[index].breaks = breaks;
        Ok(())
    }

    fn for_statement(&mut self, line: u32) -> Parsed<()> {
        self.enter_block(true);
        self.next()?;
        let name = self.name()?;
        match self.lexer.token {
            Token::Char(b'=') => self.numeric_for(name, line)?,
            Token::Char(b',') | Token::Keyword(Keyword::In) => self.generic_for(name)?,
            _ => return Err(self.lexer.error("'=' or 'in' expected")),
        }
        self.expect_match(&Token::Keyword(Keyword::End), &Token::Keyword(Keyword::For), line)?;
        self.leave_block()
    }

    fn hidden(&mut self, name: &str) -> Parsed<()> {
        self.add_local(Arc::from(name.as_bytes()))
    }

    fn numeric_for(&mut self, name: Arc<[u8]>, line: u32) -> Parsed<()> {
        self.next()?;
        let base = self.top().free_register();
        self.expression_to_next()?;
        self.expect(&Token::Char(b','))?;
        self.expression_to_next()?;
        if self.accept(&Token::Char(b','))? {
            self.expression_to_next()?;
        } else {
            let mut one = Expression::new(Kind::Number(1.0));
            let result = self.top().load_next_register(&mut one);
            self.made(result)?;
        }
        for hidden in ["(for index)", "(for limit)", "(for step)"] {
            self.hidden(hidden)?;
        }
        self.expect(&Token::Keyword(Keyword::Do))?;
        let prepare = self.top().emit(Op::ForPrepare {
            a: base as u8,
            by: NO_JUMP,
        });
        self.for_block(vec![name])?;
        self.top().patch_to_here(prepare as i32);
        let pc = self.top().emit(Op::ForLoop {
            a: base as u8,
            by: NO_JUMP,
        });
        self.top().set_line(pc, line);
        self.top().patch_list(pc as i32, prepare as i32 + 1);
        Ok(())
    }

    fn generic_for(&mut self, first: Arc<[u8]>) -> Parsed<()> {
        let base = self.top().free_register();
        let mut names = vec![first];
        while self.accept(&Token::Char(b','))? {
            names.push(self.name()?);
        }
        self.expect(&Token::Keyword(Keyword::In))?;
        let line = self.lexer.line;
        let (count, mut last) = self.expression_list()?;
        self.adjust(3, count, &mut last)?;
        let result = self.top().check_stack(3);
        self.made(result)?;
        for hidden in ["(for generator)", "(for state)", "(for control)"] {
            self.hidden(hidden)?;
        }
        self.expect(&Token::Keyword(Keyword::Do))?;
        let prepare = self.top().jump();
        let count = names.len();
        self.for_block(names)?;
        self.top().patch_to_here(prepare);
        let pc = self.top().emit(Op::ForEach {
            a: base as u8,
            count: count as u8,
        });
        self.top().set_line(pc, line);
        let back = self.top().jump();
        self.top().patch_list(back, prepare + 1);
        Ok(())
    }

    fn for_block(&mut self, names: Vec<Arc<[u8]>>) -> Parsed<()> {
        self.enter_block(false);
        let count = names.len();
        for name in names {
            self.add_local(name)?;
        }
        let result = self.top().reserve(count);
        self.made(result)?;
        self.block()?;
        self.leave_block()
    }

    fn function_statement(&mut self, line: u32) -> Parsed<()> {
        self.next()?;
        let name = self.name()?;
        let mut variable = self.variable(&name)?;
        let mut is_method = false;
        while self.is(&Token::Char(b'.')) {
            self.field(&mut variable)?;
        }
        if self.is(&Token::Char(b':')) {
            is_method = true;
            self.field(&mut variable)?;
        }
        let mut body = self.body(is_method, line)?;
        let result = self.top().store(&variable, &mut body);
        self.made(result)?;
        let pc = self.top().pc() - 1;
        self.top().set_line(pc, line);
        Ok(())
    }

    fn local_function(&mut self) -> Parsed<()> {
        let name = self.name()?;
        self.add_local(name)?;
        let result = self.top().reserve(1);
        self.made(result)?;
        let variable = Expression::new(Kind::Local((self.top().locals.len() - 1) as u8));
        let mut body = self.body(false, self.lexer.line)?;
        let result = self.top().store(&variable, &mut body);
        self.made(result)
    }

    fn local_statement(&mut self) -> Parsed<()> {
        let mut names = Vec::new();
        loop {
            names.push(self.name()?);
            if self.top().locals.len() + names.len() > LOCALS_MAX {
                return Err(self.too_many("local variables", LOCALS_MAX));
            }
            if !self.accept(&Token::Char(b','))? {
                break;
            }
        }
        let (count, mut last) = if self.accept(&Token::Char(b'='))? {
            self.expression_list()?
        } else {
            (0, Expression::new(Kind::Void))
        };
        self.adjust(names.len(), count, &mut last)?;
        for name in names {
            self.add_local(name)?;
        }
        Ok(())
    }

    fn return_statement(&mut self) -> Parsed<()> {
        self.next()?;
        if self.ends_block() || self.is(&Token::Char(b';')) {
            self.top().return_values(0, Some(0));
            return Ok(());
        }
        let (count, mut last) = self.expression_list()?;
        if last.has_many_values() {
            let result = self.top().set_results(&last, None);
            self.made(result)?;
            if let Kind::Call(pc) = last.kind
                && count == 1
            {
                let op = self.top().op_mut(pc);
                if let Op::Call { a, args, .. } = *op {
                    *op = Op::TailCall { a, args };
                }
            }
            let first = self.top().locals.len();
            self.top().return_values(first, None);
        } else if count == 1 {
            let result = self.top().load_any_register(&mut last);
            let register = self.made(result)?;
            self.top().return_values(usize::from(register), Some(1));
        } else {
            let result = self.top().load_next_register(&mut last);
            self.made(result)?;
            let first = self.top().locals.len();
            self.top().return_values(first, Some(count));
        }
        Ok(())
    }

    fn expression_statement(&mut self) -> Parsed<()> {
        let e = self.primary()?;
        if let Kind::Call(pc) = e.kind {
            if let Op::Call { results, .. } = self.top().op_mut(pc) {
                *results = 1;
            }
            return Ok(());
        }
        self.assignment(vec![Target { variable: e }])
    }

    fn assignment(&mut self, mut targets: Vec<Target>) -> Parsed<()> {
        loop {
            let last = targets.last().expect("there is a first one");
            if !matches!(
                last.variable.kind,
                Kind::Local(_) | Kind::Upval(_) | Kind::Global(_) | Kind::Indexed { .. }
            ) {
                return Err(self.lexer.error("syntax error"));
            }
            if !self.accept(&Token::Char(b','))? {
                break;
            }
            let variable = self.primary()?;
            if let Kind::Local(register) = variable.kind {
                self.avoid_conflict(&mut targets, register)?;
            }
            if targets.len() >= LEVELS_MAX - self.level {
                return Err(self.too_many("variables in assignment", LEVELS_MAX - self.level));
            }
            targets.push(Target { variable });
        }
        self.expect(&Token::Char(b'='))?;
        let (count, mut last) = self.expression_list()?;
        if count == targets.len() {
            let result = self.top().one_value(&mut last);
            self.made(result)?;
            let target = targets.pop().expect("there is a first one");
            let result = self.top().store(&target.variable, &mut last);
            self.made(result)?;
        } else {
            self.adjust(targets.len(), count, &mut last)?;
            if count > targets.len() {
                let free = self.top().free_register() - (count - targets.len());
                self.top().set_free_register(free);
            }
        }
        while let Some(target) = targets.pop() {
            let register = self.top().free_register() - 1;
            let mut value = Expression::new(Kind::Fixed(register as u8));
            let result = self.top().store(&target.variable, &mut value);
            self.made(result)?;
        }
        Ok(())
    }

    /// A local variable that is assigned to and is a table or a key of another target is copied first.
    fn avoid_conflict(&mut self, targets: &mut [Target], register: u8) -> Parsed<()> {
        let copy = self.top().free_register() as u8;
        let mut is_used = false;
        for target in targets {
            if let Kind::Indexed { table, key } = &mut target.variable.kind {
                if *table == register {
                    *table = copy;
                    is_used = true;
                }
                if *key == u16::from(register) {
                    *key = u16::from(copy);
                    is_used = true;
                }
            }
        }
        if is_used {
            self.top().emit(Op::Move { a: copy, b: register });
            let result = self.top().reserve(1);
            self.made(result)?;
        }
        Ok(())
    }

    /// Makes as many values as there are variables.
    fn adjust(&mut self, variables: usize, expressions: usize, last: &mut Expression) -> Parsed<()> {
        if last.has_many_values() {
            let extra = (variables + 1).saturating_sub(expressions);
            let result = self.top().set_results(last, Some(extra));
            self.made(result)?;
            if extra > 1 {
                let result = self.top().reserve(extra - 1);
                self.made(result)?;
            }
            return Ok(());
        }
        if last.kind != Kind::Void {
            let result = self.top().load_next_register(last);
            self.made(result)?;
        }
        if variables > expressions {
            let extra = variables - expressions;
            let register = self.top().free_register();
            let result = self.top().reserve(extra);
            self.made(result)?;
            self.top().emit(Op::Nil {
                a: register as u8,
                b: (register + extra - 1) as u8,
            });
        }
        Ok(())
    }

    // ---- expressions

    fn expression_list(&mut self) -> Parsed<(usize, Expression)> {
        let mut count = 1;
        let mut e = self.expression()?;
        while self.accept(&Token::Char(b','))? {
            let result = self.top().load_next_register(&mut e);
            self.made(result)?;
            e = self.expression()?;
            count += 1;
        }
        Ok((count, e))
    }

    fn expression_to_next(&mut self) -> Parsed<()> {
        let mut e = self.expression()?;
        let result = self.top().load_next_register(&mut e);
        self.made(result)
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.sub_expression(0).map(|(e, _)| e)
    }

    fn unary_operator(&self) -> Option<Unary> {
        match self.lexer.token {
            Token::Char(b'-') => Some(Unary::Minus),
            Token::Char(b'#') => Some(Unary::Length),
            Token::Keyword(Keyword::Not) => Some(Unary::Not),
            _ => None,
        }
    }

    fn binary_operator(&self) -> Option<Binary> {
        Some(match self.lexer.token {
            Token::Char(b'+') => Binary::Add,
            Token::Char(b'-') => Binary::Sub,
            Token::Char(b'*') => Binary::Mul,
            Token::Char(b'/') => Binary::Div,
            Token::Char(b'%') => Binary::Mod,
            Token::Char(b'^') => Binary::Pow,
            Token::Concat => Binary::Concat,
            Token::NotEqual => Binary::NotEqual,
            Token::Equal => Binary::Equal,
            Token::Char(b'<') => Binary::Less,
            Token::LessEqual => Binary::LessEqual,
            Token::Char(b'>') => Binary::Greater,
            Token::GreaterEqual => Binary::GreaterEqual,
            Token::Keyword(Keyword::And) => Binary::And,
            Token::Keyword(Keyword::Or) => Binary::Or,
            _ => return None,
        })
    }

    /// An expression of operators that bind more strongly than `limit`, and the operator behind it.
    fn sub_expression(&mut self, limit: u8) -> Parsed<(Expression, Option<Binary>)> {
        self.enter()?;
        let mut left = match self.unary_operator() {
            Some(operator) => {
                self.next()?;
                let (mut e, _) = self.sub_expression(UNARY_PRIORITY)?;
                let result = self.top().prefix(operator, &mut e);
                self.made(result)?;
                e
            }
            None => self.simple()?,
        };
        let mut operator = self.binary_operator();
        while let Some(found) = operator
            && found.priority().0 > limit
        {
            self.next()?;
            let result = self.top().infix(found, &mut left);
            self.made(result)?;
            let (mut right, next) = self.sub_expression(found.priority().1)?;
            let result = self.top().postfix(found, &mut left, &mut right);
            self.made(result)?;
            operator = next;
        }
        self.leave();
        Ok((left, operator))
    }

    fn simple(&mut self) -> Parsed<Expression> {
        let kind = match &self.lexer.token {
            Token::Number(n) => Kind::Number(*n),
            Token::Text(text) => {
                let text = Arc::from(&text[..]);
                Kind::Constant(self.top().text(&text))
            }
            Token::Keyword(Keyword::Nil) => Kind::Nil,
            Token::Keyword(Keyword::True) => Kind::True,
            Token::Keyword(Keyword::False) => Kind::False,
            Token::Dots => {
                let top = self.top();
                top.signature.varargs = match top.signature.varargs {
                    Varargs::None => {
                        return Err(self.lexer.error("cannot use '...' outside a vararg function"));
                    }
                    Varargs::Table => Varargs::DotsAndNil,
                    other => other,
                };
                Kind::Vararg(top.emit(Op::Vararg { a: 0, count: 2 }))
            }
            Token::Char(b'{') => return self.constructor(),
            Token::Keyword(Keyword::Function) => {
                self.next()?;
                return self.body(false, self.lexer.line);
            }
            _ => return self.primary(),
        };
        self.next()?;
        Ok(Expression::new(kind))
    }

    fn prefix(&mut self) -> Parsed<Expression> {
        match &self.lexer.token {
            Token::Name(_) => {
                let name = self.name()?;
                self.variable(&name)
            }
            Token::Char(b'(') => {
                let line = self.lexer.line;
                self.next()?;
                let mut e = self.expression()?;
                self.expect_match(&Token::Char(b')'), &Token::Char(b'('), line)?;
                self.top().discharge(&mut e);
                Ok(e)
            }
            _ => Err(self.lexer.error("unexpected symbol")),
        }
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let mut e = self.prefix()?;
        loop {
            match &self.lexer.token {
                Token::Char(b'.') => self.field(&mut e)?,
                Token::Char(b'[') => {
                    let result = self.top().load_any_register(&mut e);
                    self.made(result)?;
                    let mut key = self.index()?;
                    let result = self.top().indexed(&mut e, &mut key);
                    self.made(result)?;
                }
                Token::Char(b':') => {
                    self.next()?;
                    let name = self.name()?;
                    let mut key = Expression::new(Kind::Constant(self.top().text(&name)));
                    let result = self.top().method(&mut e, &mut key);
                    self.made(result)?;
                    self.arguments(&mut e)?;
                }
                Token::Char(b'(') | Token::Text(_) | Token::Char(b'{') => {
                    let result = self.top().load_next_register(&mut e);
                    self.made(result)?;
                    self.arguments(&mut e)?;
                }
                _ => return Ok(e),
            }
        }
    }

    /// `.name` or `:name`.
    fn field(&mut self, e: &mut Expression) -> Parsed<()> {
        let result = self.top().load_any_register(e);
        self.made(result)?;
        self.next()?;
        let name = self.name()?;
        let mut key = Expression::new(Kind::Constant(self.top().text(&name)));
        let result = self.top().indexed(e, &mut key);
        self.made(result)
    }

    /// `[expression]`.
    fn index(&mut self) -> Parsed<Expression> {
        self.next()?;
        let mut e = self.expression()?;
        let result = self.top().load_value(&mut e);
        self.made(result)?;
        self.expect(&Token::Char(b']'))?;
        Ok(e)
    }

    fn arguments(&mut self, function: &mut Expression) -> Parsed<()> {
        let line = self.lexer.line;
        let mut args = Expression::new(Kind::Void);
        match &self.lexer.token {
            Token::Char(b'(') => {
                if self.lexer.has_moved_line() {
                    return Err(self
                        .lexer
                        .error("ambiguous syntax (function call x new statement)"));
                }
                self.next()?;
                if !self.is(&Token::Char(b')')) {
                    (_, args) = self.expression_list()?;
                    if args.has_many_values() {
                        let result = self.top().set_results(&args, None);
                        self.made(result)?;
                    }
                }
                self.expect_match(&Token::Char(b')'), &Token::Char(b'('), line)?;
            }
            Token::Char(b'{') => args = self.constructor()?,
            Token::Text(text) => {
                let text = Arc::from(&text[..]);
                args = Expression::new(Kind::Constant(self.top().text(&text)));
                self.next()?;
            }
            _ => return Err(self.lexer.error("function arguments expected")),
        }
        let Kind::Fixed(base) = function.kind else {
            unreachable!("the function was put into a register")
        };
        let count = if args.has_many_values() {
            0
        } else {
            if args.kind != Kind::Void {
                let result = self.top().load_next_register(&mut args);
                self.made(result)?;
            }
            (self.top().free_register() - usize::from(base)) as u8
        };
        let pc = self.top().emit(Op::Call {
            a: base,
            args: count,
            results: 2,
        });
        self.top().set_line(pc, line);
        self.top().note(pc, base);
        self.top().forget_name(base);
        self.top().set_free_register(usize::from(base) + 1);
        *function = Expression::new(Kind::Call(pc));
        Ok(())
    }

    fn constructor(&mut self) -> Parsed<Expression> {
        let line = self.lexer.line;
        let pc = self.top().emit(Op::NewTable {
            a: 0,
            array: 0,
            hash: 0,
        });
        let mut table = Expression::new(Kind::Relocatable(pc));
        let result = self.top().load_next_register(&mut table);
        self.made(result)?;
        let Kind::Fixed(base) = table.kind else {
            unreachable!("it was put into a register")
        };
        let (mut in_array, mut in_hash, mut pending) = (0usize, 0usize, 0usize);
        let mut item = Expression::new(Kind::Void);
        self.expect(&Token::Char(b'{'))?;
        while !self.is(&Token::Char(b'}')) {
            // The value before, now that another one follows.
            if item.kind != Kind::Void {
                let result = self.top().load_next_register(&mut item);
                self.made(result)?;
                item.kind = Kind::Void;
                if pending == FIELDS_PER_FLUSH {
                    let result = self.top().set_list(base, in_array, Some(pending));
                    self.made(result)?;
                    pending = 0;
                }
            }
            let is_keyed = match &self.lexer.token {
                Token::Name(_) => *self.lexer.look_ahead()? == Token::Char(b'='),
                Token::Char(b'[') => true,
                _ => false,
            };
            if is_keyed {
                self.keyed_field(base)?;
                in_hash += 1;
            } else {
                item = self.expression()?;
                in_array += 1;
                pending += 1;
            }
            if !self.accept(&Token::Char(b','))? && !self.accept(&Token::Char(b';'))? {
                break;
            }
        }
        self.expect_match(&Token::Char(b'}'), &Token::Char(b'{'), line)?;
        if pending > 0 {
            if item.has_many_values() {
                let result = self.top().set_results(&item, None);
                self.made(result)?;
                let result = self.top().set_list(base, in_array, None);
                self.made(result)?;
                in_array -= 1;
            } else {
                if item.kind != Kind::Void {
                    let result = self.top().load_next_register(&mut item);
                    self.made(result)?;
                }
                let result = self.top().set_list(base, in_array, Some(pending));
                self.made(result)?;
            }
        }
        *self.top().op_mut(pc) = Op::NewTable {
            a: base,
            array: rounded(in_array),
            hash: rounded(in_hash),
        };
        Ok(table)
    }

    fn keyed_field(&mut self, base: u8) -> Parsed<()> {
        let free = self.top().free_register();
        let mut key = if let Token::Name(_) = self.lexer.token {
            let name = self.name()?;
            Expression::new(Kind::Constant(self.top().text(&name)))
        } else {
            self.index()?
        };
        self.expect(&Token::Char(b'='))?;
        let mut variable = Expression::new(Kind::Fixed(base));
        let result = self.top().indexed(&mut variable, &mut key);
        self.made(result)?;
        let mut value = self.expression()?;
        let result = self.top().load_operand(&mut value);
        self.made(result)?;
        let result = self.top().store_kept(&variable, &mut value);
        self.made(result)?;
        self.top().set_free_register(free);
        Ok(())
    }

    /// Parameters, statements and `end`.
    fn body(&mut self, is_method: bool, line: u32) -> Parsed<Expression> {
        self.enter()?;
        self.functions.push(Emitter::new(Varargs::None, line));
        self.enter_block(false);
        self.expect(&Token::Char(b'('))?;
        if is_method {
            self.hidden("self")?;
        }
        let mut has_dots = false;
        if !self.is(&Token::Char(b')')) {
            loop {
                match &self.lexer.token {
                    Token::Name(_) => {
                        let name = self.name()?;
                        self.add_local(name)?;
                    }
                    Token::Dots => {
                        self.next()?;
                        has_dots = true;
                    }
                    _ => return Err(self.lexer.error("<name> or '...' expected")),
                }
                if has_dots || !self.accept(&Token::Char(b','))? {
                    break;
                }
            }
        }
        let params = self.top().locals.len();
        if has_dots {
            self.hidden("arg")?;
            self.top().signature.varargs = Varargs::Table;
        }
        self.top().signature.params = params as u8;
        let count = self.top().locals.len();
        let result = self.top().reserve(count);
        self.made(result)?;
        self.expect(&Token::Char(b')'))?;
        self.chunk()?;
        let end = self.lexer.line;
        self.expect_match(
            &Token::Keyword(Keyword::End),
            &Token::Keyword(Keyword::Function),
            line,
        )?;
        self.leave_block()?;
        self.top().return_values(0, Some(0));
        let pc = self.top().pc() - 1;
        self.top().set_line(pc, end);
        let emitter = self.functions.pop().expect("it was just pushed");
        let prototype = Arc::new(emitter.finish(&self.source));
        let top = self.top();
        let child = top.children.len() as u32;
        top.children.push(prototype);
        let pc = top.emit(Op::Closure { a: 0, child });
        self.leave();
        Ok(Expression::new(Kind::Relocatable(pc)))
    }
}

/// A size as Lua writes it into an instruction: eight values for each power of two, rounded up.
fn rounded(n: usize) -> u16 {
    let (mut mantissa, mut exponent) = (n, 0u32);
    while mantissa >= 16 {
        mantissa = mantissa.div_ceil(2);
        exponent += 1;
    }
    // What is larger than fits grows when it is filled.
    (mantissa << exponent).min(usize::from(u16::MAX)) as u16
}
