//! Programs that nobody wrote, beside a real Redis.
//!
//! A program is a few dozen statements, each within `pcall`; what they give, and with which error, is written down by the program itself, and the two
//! notes must be equal. `CHORALE_SCRIPTS` is how many programs, `CHORALE_SEED` the first one's seed.

use crate::corpus::ours;
use crate::redis::Redis;

/// Programs in an ordinary run.
const PROGRAMS: u64 = 150;

struct Source {
    state: u64,
}

impl Source {
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn number(&mut self) -> String {
        match self.below(6) {
            0 => self.below(10).to_string(),
            1 => format!("-{}", self.below(100)),
            2 => format!("{}.5", self.below(50)),
            3 => self
                .pick(&[
                    "0",
                    "1e3",
                    "0x1F",
                    "2^31",
                    "2^53",
                    "1e15",
                    "1e14",
                    "0.1",
                    "-0.25",
                    "1/3",
                    "1e-5",
                    "123456789",
                    "-2^31",
                    "1e300",
                ])
                .to_owned(),
            4 => format!("{}", self.below(300)),
            _ => format!("{}", self.below(5)),
        }
    }

    fn string(&mut self) -> String {
        match self.below(4) {
            0 => self
                .pick(&[
                    "''",
                    "'a'",
                    "'hello'",
                    "'10'",
                    "'0x10'",
                    "' 5 '",
                    "'a,b,,c'",
                    "'key=value'",
                    "'\\0x\\255'",
                    "'%d%s'",
                    "'AbC'",
                    "'x\\ny'",
                    "'1e1'",
                ])
                .to_owned(),
            1 => format!("'k{}'", self.below(20)),
            2 => format!("('{}'):rep({})", self.pick(&["ab", "x", "foo "]), self.below(6)),
            _ => format!("tostring({})", self.number()),
        }
    }

    fn pattern(&mut self) -> String {
        const PARTS: &[&str] = &[
            "a", ".", "%a", "%d", "%w", "%s", "[a-e]", "[^x]", "%W", "()", "(%a)", "(.)", "%.", "l", "[%w_]",
            "(a", ")", "%1", "%b()", "%f[%w]", "[", "%", "[]]", "[^]]", "[a-]", "%z", "%p",
        ];
        let mut pattern = String::from("'");
        if self.below(5) == 0 {
            pattern.push('^');
        }
        for _ in 0..=self.below(3) {
            pattern.push_str(self.pick(PARTS));
            pattern.push_str(self.pick(&["", "", "*", "+", "-", "?"]));
        }
        if self.below(6) == 0 {
            pattern.push('$');
        }
        pattern.push('\'');
        pattern
    }

    fn variable(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "s", "t", "u", "f", "n"])
    }

    fn table(&mut self, depth: usize) -> String {
        let mut text = String::from("{");
        for _ in 0..self.below(5) {
            match self.below(4) {
                0 => {
                    let name = self.pick(&["x", "y", "k1", "k2", "err1", "n"]);
                    text.push_str(&format!("{name} = {}, ", self.value(depth + 1)));
                }
                1 => text.push_str(&format!("[{}] = {}, ", self.key(), self.value(depth + 1))),
                _ => text.push_str(&format!("{}, ", self.value(depth + 1))),
            }
        }
        text.push('}');
        text
    }

    fn key(&mut self) -> String {
        match self.below(4) {
            0 => self.number(),
            1 => self
                .pick(&["true", "false", "1.5", "'x'", "'k1'", "3"])
                .to_owned(),
            2 => self.below(8).to_string(),
            _ => self.string(),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        if depth > 3 {
            return self.number();
        }
        match self.below(16) {
            0..=2 => self.number(),
            3 | 4 => self.string(),
            5 => self.pick(&["nil", "true", "false"]).to_owned(),
            6 | 7 => self.variable().to_owned(),
            8 => self.table(depth),
            9 | 10 => {
                let operator = self.pick(&[
                    "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or",
                ]);
                format!("({} {operator} {})", self.value(depth + 1), self.value(depth + 1))
            }
            11 => format!("({} {})", self.pick(&["-", "not", "#"]), self.value(depth + 1)),
            12 => format!("({})[{}]", self.variable(), self.key()),
            _ => self.call(depth + 1),
        }
    }

    fn values(&mut self, depth: usize, count: usize) -> String {
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(depth));
        }
        values.join(", ")
    }

    fn call(&mut self, depth: usize) -> String {
        match self.below(12) {
            0 => {
                let name = self.pick(&[
                    "tonumber",
                    "type",
                    "select",
                    "next",
                    "rawequal",
                    "rawget",
                    "unpack",
                    "tostring",
                    "pcall",
                    "assert",
                    "error",
                    "getmetatable",
                    "ipairs",
                ]);
                // What has an address is not the same elsewhere.
                if matches!(name, "tostring" | "error") {
                    return format!("{name}({})", self.number());
                }
                if matches!(name, "next" | "ipairs" | "getmetatable") {
                    return format!("type(({name}({})))", self.values(depth, 1));
                }
                let count = self.below(3) + 1;
                format!("({name}({}))", self.values(depth, count))
            }
            1 => {
                let name = self.pick(&["len", "upper", "lower", "reverse", "byte"]);
                format!("(string.{name}({}))", self.value(depth))
            }
            2 => format!(
                "(string.sub({}, {}, {}))",
                self.string(),
                self.value(depth),
                self.number()
            ),
            3 => format!(
                "P(string.find({}, {}, {}))",
                self.string(),
                self.pattern(),
                self.below(4)
            ),
            4 => format!("P(string.match({}, {}))", self.string(), self.pattern()),
            5 => {
                let replacement = match self.below(4) {
                    0 => "'<%0>'".to_owned(),
                    1 => "'%1'".to_owned(),
                    2 => "{a = 'A', k = false, ['1'] = 7}".to_owned(),
                    _ => "function(x, y) return x and (x .. (y or '-')) end".to_owned(),
                };
                format!(
                    "P(string.gsub({}, {}, {replacement}))",
                    self.string(),
                    self.pattern()
                )
            }
            6 => {
                let format = self.pick(&[
                    "'%d'", "'%5d|'", "'%-5d|'", "'%05d'", "'%x'", "'%g'", "'%.3f'", "'%10.2e'", "'%s'",
                    "'%q'", "'%5s'", "'%c'", "'%+d'", "'% d'", "'%#x'", "'%o'", "'%u'", "'%i'", "'%.3g'",
                    "'%G'", "'%.20g'", "'%.0f'", "'%5.1s|'", "'%%'",
                ]);
                format!("string.format({format}, {})", self.value(depth))
            }
            7 => {
                let name = self.pick(&[
                    "floor", "ceil", "abs", "sqrt", "max", "min", "fmod", "modf", "frexp", "ldexp", "pow",
                    "rad", "deg",
                ]);
                format!("P(math.{name}({}, {}))", self.value(depth), self.number())
            }
            8 => {
                let name = self.pick(&[
                    "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex", "bnot",
                    "tobit", "bswap",
                ]);
                format!("bit.{name}({}, {})", self.value(depth), self.number())
            }
            9 => match self.below(4) {
                0 => format!("cjson.encode({})", self.value(depth)),
                1 => format!("D(cjson.decode(cjson.encode({})))", self.table(depth)),
                2 => format!("D(cmsgpack.pack({}))", self.value(depth)),
                _ => format!("P(cmsgpack.unpack(cmsgpack.pack({})))", self.value(depth)),
            },
            10 => match self.below(5) {
                0 => format!("table.concat({}, ',')", self.table(depth)),
                1 => format!("#{}", self.table(depth)),
                2 => format!("table.maxn({})", self.table(depth)),
                3 => {
                    let format = self.pick(&[
                        "b", ">h", "<i3", "!4bi", "s", "c3", "d", ">L", "f", "bbb", "i", "x", "c0", ">!8bd",
                    ]);
                    format!(
                        "D(struct.pack('{format}', {}, {}))",
                        self.value(depth),
                        self.number()
                    )
                }
                _ => {
                    let format = self.pick(&[
                        "b", ">h", "<i3", "s", "c3", "d", ">L", "B", "bbb", "!b", "bc0", "x",
                    ]);
                    format!("P(struct.unpack('{format}', {}))", self.string())
                }
            },
            _ => {
                let count = self.below(3);
                format!("{}({})", self.variable(), self.values(depth, count))
            }
        }
    }

    fn statement(&mut self, depth: usize) -> String {
        match self.below(14) {
            0..=2 => format!("{} = {}", self.variable(), self.value(0)),
            3 => format!(
                "{}, {} = {}, {}",
                self.variable(),
                self.variable(),
                self.value(0),
                self.value(0)
            ),
            4 | 5 => format!("t[{}] = {}", self.key(), self.value(0)),
            6 if depth < 2 => format!(
                "for i = {}, {}, {} do {} if i > 20 then break end end",
                self.below(3),
                self.below(6),
                self.pick(&["1", "2", "-1", "0.5"]),
                self.statement(depth + 1)
            ),
            7 if depth < 2 => format!(
                "for k, v in pairs({}) do {} end",
                self.table(0),
                self.statement(depth + 1)
            ),
            8 if depth < 2 => format!(
                "if {} then {} elseif {} then {} else {} end",
                self.value(0),
                self.statement(depth + 1),
                self.value(0),
                self.statement(depth + 1),
                self.statement(depth + 1)
            ),
            9 if depth < 2 => format!(
                "do local a, x = {}, {} f = function(y, ...) x = {} {} return a, x, y, select('#', ...) end end",
                self.value(0),
                self.value(0),
                self.value(0),
                self.statement(depth + 1)
            ),
            10 => format!("table.insert(t, {})", self.value(0)),
            11 => format!("u = table.remove(t, {})", self.pick(&["", "1", "2", "#t"])),
            12 => {
                let order = self.pick(&[
                    "",
                    ", function(x, y) return D(x) < D(y) end",
                    ", function(x, y) return x > y end",
                ]);
                format!("t = {} table.sort(t{order})", self.table(0))
            }
            _ if depth < 2 => format!(
                "do local rounds = 0 repeat rounds = rounds + 1 {} until rounds > {} end",
                self.statement(depth + 1),
                self.below(4)
            ),
            _ => format!("n = {}", self.value(0)),
        }
    }

    fn program(&mut self) -> String {
        let mut text = String::from(PRELUDE);
        for number in 1..=12 + self.below(20) {
            let statement = self.statement(0);
            text.push_str(&format!(
                "\ndo local ok, e = pcall(function() {statement} end) note({number}, ok, e) end"
            ));
        }
        text.push_str("\nreturn table.concat(notes, '\\n')");
        text
    }
}

/// Notes what there is, without addresses.
const PRELUDE: &str = "local a, b, c, s, t, u, f, n = 1, '2', {3}, 'str', {1, 2, 3}, {x = 1}, function(...) return ... end, 0
local notes = {}
local function D(v, depth)
    depth = depth or 0
    if type(v) == 'string' then return (v:gsub('[^%w%p ]', function(x) return '\\\\' .. x:byte() end)) end
    if type(v) ~= 'table' then return type(v) == 'function' and 'function' or tostring(v) end
    if depth > 3 then return '...' end
    local parts = {}
    for k, x in pairs(v) do parts[#parts + 1] = (type(k) == 'table' and 'table' or D(k, 9)) .. '=' .. D(x, depth + 1) end
    return '{' .. table.concat(parts, ',') .. '#' .. #v .. '}'
end
local function P(...)
    local parts = {}
    for i = 1, select('#', ...) do parts[i] = D((select(i, ...))) end
    return table.concat(parts, '|')
end
local function note(number, ok, e)
    notes[#notes + 1] = number .. ' ' .. tostring(ok) .. ' ' .. D(e) .. ' ' .. P(a, b, c, s, t, u, f, n)
end";

/// True of differences that are meant.
fn is_meant(theirs: &str) -> bool {
    // A table that `tostring` shows, in an error or by accident, has an address.
    theirs.contains("0x")
}

#[test]
fn programs_do_what_they_do_in_redis() {
    let number = |name: &str, default: u64| -> u64 {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (count, first) = (number("CHORALE_SCRIPTS", PROGRAMS), number("CHORALE_SEED", 1));
    let mut redis = Redis::start();
    let mut meant = 0;
    for seed in first..first + count {
        let mut source = Source {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        let program = source.program();
        let theirs = redis.eval(&program, &crate::corpus::KEYS, &crate::corpus::ARGV);
        let ours = ours(&mut redis, &program);
        if ours == theirs {
            continue;
        }
        let text = |reply: &script::Reply| match reply {
            script::Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            script::Reply::Error(bytes) => format!("error {}", String::from_utf8_lossy(bytes)),
            other => format!("{other:?}"),
        };
        let (ours, theirs) = (text(&ours), text(&theirs));
        let differing = ours
            .lines()
            .zip(theirs.lines())
            .find(|(ours, theirs)| ours != theirs)
            .unwrap_or((&ours, &theirs));
        if is_meant(differing.1) {
            meant += 1;
            continue;
        }
        let line: usize = differing
            .0
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        let skipped = PRELUDE.lines().count() - 1;
        let statement = program.lines().nth(skipped + line).unwrap_or_default();
        panic!(
            "seed {seed}, statement {line}: {statement}\n  ours:   {}\n  theirs: {}",
            differing.0, differing.1
        );
    }
    assert!(
        meant * 4 <= count,
        "too many programs show addresses: {meant} of {count}"
    );
}
