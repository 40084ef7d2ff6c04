//! Commands on the server and on its clients, as far as they leave both servers as they are.

use super::{Generator, words};

impl Generator {
    pub(super) fn server_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(12) {
            0..3 => self.client_command(),
            3 | 4 => {
                let choices = [
                    "SLOWLOG LEN",
                    "SLOWLOG GET",
                    "SLOWLOG GET 0",
                    "SLOWLOG GET -1",
                    "SLOWLOG GET -2",
                    "SLOWLOG GET x",
                    "SLOWLOG GET 1 2",
                    "SLOWLOG RESET",
                    "SLOWLOG HELP",
                    "SLOWLOG BOGUS",
                    "LATENCY LATEST",
                    "LATENCY RESET",
                    "LATENCY RESET command fork",
                    "LATENCY HISTORY command",
                    "LATENCY HISTOGRAM nosuch",
                    "LATENCY HISTOGRAM get",
                    "LATENCY GRAPH command",
                    "LATENCY DOCTOR",
                    "LATENCY HELP",
                    "LATENCY BOGUS",
                ];
                self.line(&choices)
            }
            5 => {
                let choices = [
                    "MEMORY DOCTOR",
                    "MEMORY STATS",
                    "MEMORY MALLOC-STATS",
                    "MEMORY PURGE",
                    "MEMORY HELP",
                    "MEMORY BOGUS",
                ];
                self.line(&choices)
            }
            6 => {
                let mut arguments = words("MEMORY USAGE");
                arguments.push(self.any_key());
                if self.prng.chance(40) {
                    arguments.extend([
                        self.word(&["SAMPLES", "SAMPLES", "BOGUS"]),
                        self.of(&["0", "1", "5", "-1", "x"]),
                    ]);
                }
                arguments
            }
            7 | 8 => {
                let choices = [
                    "CONFIG GET maxmemory",
                    "CONFIG GET nosuch",
                    "CONFIG GET hash-max-listpack-entries hash-max-listpack-value",
                    "CONFIG GET *max-ziplist*",
                    "CONFIG SET nosuch 1",
                    "CONFIG SET maxmemory",
                    "CONFIG SET maxmemory x",
                    "CONFIG SET maxmemory 0",
                    "CONFIG SET maxmemory 0 maxmemory 0",
                    "CONFIG SET timeout -1",
                    "CONFIG SET slowlog-max-len 128",
                    "CONFIG RESETSTAT",
                    "CONFIG REWRITE",
                    "CONFIG HELP",
                    "CONFIG BOGUS",
                ];
                self.line(&choices)
            }
            9 => {
                let choices = [
                    "COMMAND",
                    "COMMAND COUNT",
                    "COMMAND DOCS nosuch",
                    "COMMAND DOCS get",
                    "COMMAND INFO nosuch",
                    "COMMAND INFO get",
                    "COMMAND LIST",
                    "COMMAND LIST FILTERBY MODULE nosuch",
                    "COMMAND LIST FILTERBY",
                    "COMMAND GETKEYS",
                    "COMMAND GETKEYS nosuch a",
                    "COMMAND HELP",
                    "COMMAND BOGUS",
                ];
                self.line(&choices)
            }
            10 => {
                let command = self.data_command();
                [
                    words("COMMAND"),
                    vec![self.word(&["GETKEYS", "GETKEYSANDFLAGS"])],
                    command,
                ]
                .concat()
            }
            _ => {
                let choices = [
                    "TIME",
                    "INFO",
                    "INFO server",
                    "INFO nosuch",
                    "WAIT 0 1",
                    "WAIT 1 1",
                    "WAIT x 1",
                    "WAIT 0 -1",
                    "WAIT 0 x",
                    "LOLWUT",
                    "LOLWUT VERSION 5 20",
                    "FUNCTION FLUSH",
                    "FUNCTION FLUSH ASYNC",
                    "FUNCTION FLUSH BOGUS",
                    "PFSELFTEST",
                ];
                self.line(&choices)
            }
        }
    }

    fn client_command(&mut self) -> Vec<Vec<u8>> {
        let choices = [
            "CLIENT ID",
            "CLIENT INFO",
            "CLIENT LIST",
            "CLIENT LIST TYPE normal",
            "CLIENT LIST TYPE bogus",
            "CLIENT LIST ID 999999",
            "CLIENT LIST ID x",
            "CLIENT LIST BOGUS",
            "CLIENT KILL ID 999999",
            "CLIENT KILL ID 0",
            "CLIENT KILL ADDR 10.0.0.1:1",
            "CLIENT KILL 10.0.0.1:1",
            "CLIENT KILL TYPE bogus",
            "CLIENT KILL SKIPME yes",
            "CLIENT KILL BOGUS x",
            "CLIENT KILL ID",
            "CLIENT NO-EVICT ON",
            "CLIENT NO-EVICT OFF",
            "CLIENT NO-EVICT BOGUS",
            "CLIENT UNBLOCK 999999",
            "CLIENT UNBLOCK 999999 ERROR",
            "CLIENT UNBLOCK 999999 BOGUS",
            "CLIENT UNBLOCK x",
            "CLIENT PAUSE 0",
            "CLIENT PAUSE 1",
            "CLIENT PAUSE 1 WRITE",
            "CLIENT PAUSE 1 ALL",
            "CLIENT PAUSE 1 BOGUS",
            "CLIENT PAUSE -1",
            "CLIENT PAUSE x",
            "CLIENT UNPAUSE",
            "CLIENT GETREDIR",
            "CLIENT TRACKINGINFO",
            "CLIENT HELP",
            "CLIENT BOGUS",
            "CLIENT REPLY BOGUS",
            "CLIENT REPLY ON",
        ];
        self.line(&choices)
    }

    /// The words of one of `choices`, the first of them in any case.
    fn line(&mut self, choices: &[&str]) -> Vec<Vec<u8>> {
        let mut arguments = words(self.prng.pick::<&str>(choices));
        if self.prng.chance(30) {
            arguments[0].make_ascii_lowercase();
        }
        arguments
    }

    /// A key that commands of some family use.
    fn any_key(&mut self) -> Vec<u8> {
        match self.prng.below(4) {
            0 => self.list_key(),
            1 => self.set_key(),
            2 => self.sorted_set_key(),
            _ => self.key(),
        }
    }
}
