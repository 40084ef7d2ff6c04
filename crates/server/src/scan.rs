//! `SCAN`: through the groups of one worker, from the cursor's on.

use crate::gateway::Gateway;
use crate::pipeline::Pipeline;
use crate::program::{Program, scan_cursor, scan_start};
use crate::session::Session;
use command::{Command, Spec};
use ids::{Db, GroupId};
use keyspace::scan_accepts;
use resp::{Args, Writer};

/// Keys that one call looks at, whatever its `COUNT`, which is a hint: a million would hold the worker up.
const COUNT_MAX: u64 = 16_384;

impl Gateway {
    /// `SCAN`: goes through groups of one worker from the cursor on.
    pub(crate) fn on_scan(
        &mut self,
        session: &mut Session,
        pipeline: &mut Pipeline,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        let moved_on = self.scan_on(session, args);
        let args = moved_on.as_ref().map_or(args, |words| words.as_args());
        let start = scan_start(self.groups, args);
        match start {
            Some((group, _)) if self.is_spread || self.is_replicated_here(group) => {
                let operation = session.operation(spec, args);
                self.begin(session, pipeline, Program::single(operation));
            }
            Some((group, _)) if self.local(group).is_none() => {
                self.forward(session, pipeline, spec, args, group);
            }
            Some(_) | None => self.scan_here(session.db, spec, args, &mut pipeline.writer(session.protocol)),
        }
    }

    /// `SCAN` over this worker's groups, from the one in the cursor on, until enough keys were looked at.
    pub(crate) fn scan_here(&mut self, db: Db, spec: &'static Spec, args: Args<'_>, out: &mut Writer<'_>) {
        let parse = spec.parse.expect("SCAN has a parser");
        let options = match parse(args) {
            Ok(Command::Scan { options, .. }) => options,
            Ok(_) => unreachable!("SCAN parses as SCAN"),
            Err(error) => return error.write(out),
        };
        // A cursor that names no group is behind the last one: the scan is over.
        let mut at = scan_start(self.groups, args);
        let count_max = options.count.min(COUNT_MAX);
        let mut keys = std::mem::take(&mut self.spare);
        keys.clear();
        let mut found = Writer::new(&mut keys, out.protocol());
        let (mut count, mut looked) = (0, 0);
        let mut cursor = 0;
        let accepts = scan_accepts(&options);
        while let Some((group, position)) = at {
            let Some(index) = self.local(group) else { break };
            if cursor != 0 && self.is_replicated_here(group) {
                // Its leader is asked by the next call: what is here may be old, or nothing at all.
                break;
            }
            let mut seen = 0;
            let budget = count_max - looked;
            let next = self.replicas[index].scan(&self.turn, db, position, budget, |object| {
                seen += 1;
                if accepts(object) {
                    found.bulk(object.key());
                    count += 1;
                }
            });
            self.tell(index);
            // An empty group costs a little too: a scan of many empty groups stays bounded by its COUNT.
            looked += seen.max(u64::from(next.is_some()));
            cursor = scan_cursor(self.groups, group, next);
            if cursor == 0 || looked >= count_max {
                break;
            }
            let position = keyspace::Position::new(cursor & ((1 << keyspace::Position::BITS) - 1));
            at = Some((
                GroupId::new((cursor >> keyspace::Position::BITS) as u16),
                position.expect("masked to its bits"),
            ));
        }
        out.array(2);
        out.bulk_integer(cursor as i64);
        out.array(count);
        out.raw(&keys);
        self.spare = keys;
    }
}
