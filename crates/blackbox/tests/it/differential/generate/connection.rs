//! Commands on the connection, and transactions.

use super::{Generator, words};

impl Generator {
    pub(super) fn connection_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(22) {
            0..4 => {
                let mut arguments = words("WATCH");
                arguments.extend(self.keys());
                arguments
            }
            4 => words("UNWATCH"),
            5 => words("MULTI"),
            6 => words("EXEC"),
            7 => words("DISCARD"),
            8 => words("PING"),
            9 => vec![self.word(&["PING"]), self.value()],
            10 => vec![self.word(&["ECHO"]), self.value()],
            11 | 12 => words("HELLO 3"),
            13 => words("HELLO 2"),
            14 => words("HELLO"),
            15 => {
                let mut arguments = vec![
                    self.word(&["HELLO"]),
                    self.of(&["2", "3", "4", "1", "abc", "", "9223372036854775808"]),
                ];
                match self.prng.below(4) {
                    0 => arguments.extend(words("SETNAME tester")),
                    1 => arguments.extend(words("AUTH default")),
                    2 => arguments.extend(words("BOGUS")),
                    _ => arguments.extend(words("SETNAME")),
                }
                arguments
            }
            16 => words("RESET"),
            17 => words("QUIT"),
            18 => words("CLIENT GETNAME"),
            19 => {
                let mut arguments = words("CLIENT SETNAME");
                arguments.push(self.value());
                arguments
            }
            20 => words("AUTH somepassword"),
            _ => words("AUTH default somepassword"),
        }
    }
}
