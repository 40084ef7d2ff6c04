//! Streams: the specs of their commands.

use super::StreamCommand;
use super::parse::*;
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Cost, Flags, Merge, Spec, Spread};

pub(crate) const XADD: Spec = Spec::write(
    "xadd",
    -5,
    &[KeySpec::at(1, KeyFlags::ADJUST)
        .notes("UPDATE instead of INSERT because of the optional trimming feature")],
)
.flags(Flags::DENYOOM.and(Flags::FAST))
.tips("nondeterministic_output")
.parse(parse_add);

pub(crate) const XLEN: Spec = Spec::look("xlen", 2)
    .flags(Flags::FAST)
    .parse(|args| command(StreamCommand::Len { key: args.arg(1) }));

pub(crate) const XRANGE: Spec = Spec::read("xrange", -4)
    .cost(Cost::Part)
    .parse(|args| parse_range(args, false));

pub(crate) const XREVRANGE: Spec = Spec::read("xrevrange", -4)
    .cost(Cost::Part)
    .parse(|args| parse_range(args, true));

pub(crate) const XREAD: Spec = Spec::read("xread", -4)
    .keys(&[KeySpec::streams(1)])
    .flags(Flags::BLOCKING.and(Flags::MOVABLEKEYS))
    .spread(Spread::Split(Merge::Streams))
    .cost(Cost::Part)
    .parse(|args| parse_read(args, false));

/// What a gateway asks the groups for before a client waits from the end of streams on.
pub(crate) const XREAD_LAST: Spec = Spec::read("xread.last", -2)
    .keys(&[KeySpec::from(1, KeyFlags::READ)])
    .flags(Flags::FAST)
    .spread(Spread::Split(Merge::ByPosition))
    .internal()
    .parse(|args| command(StreamCommand::LastIds { keys: args.from(1) }));

pub(crate) const XREADGROUP: Spec = Spec::write("xreadgroup", -7, &[KeySpec::streams(4)])
    .flags(Flags::BLOCKING.and(Flags::MOVABLEKEYS))
    .spread(Spread::AllOrNothing)
    .cost(Cost::Part)
    .parse(|args| parse_read(args, true));

pub(crate) const XDEL: Spec = Spec::write("xdel", -3, KeySpec::SHRINK)
    .flags(Flags::FAST)
    .parse(parse_delete);

pub(crate) const XTRIM: Spec = Spec::write("xtrim", -4, KeySpec::SHRINK)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_trim);

pub(crate) const XSETID: Spec = Spec::write("xsetid", -3, KeySpec::ADJUST)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_set_id);

pub(crate) const XACK: Spec = Spec::write("xack", -4, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .parse(parse_acknowledge);

pub(crate) const XPENDING: Spec = Spec::read("xpending", -3)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_pending);

pub(crate) const XCLAIM: Spec = Spec::write("xclaim", -6, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .tips("nondeterministic_output")
    .parse(parse_claim);

pub(crate) const XAUTOCLAIM: Spec = Spec::write("xautoclaim", -6, KeySpec::SHRINK)
    .flags(Flags::FAST)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_auto_claim);

pub(crate) const XGROUP: Spec = Spec::container("xgroup");

pub(crate) const XGROUP_CREATE: Spec = Spec::write("xgroup|create", -5, &[KeySpec::at(2, KeyFlags::EXTEND)])
    .flags(Flags::DENYOOM)
    .parse(|args| parse_group_start(args, true));

pub(crate) const XGROUP_SETID: Spec = Spec::write("xgroup|setid", -5, &[KeySpec::at(2, KeyFlags::ADJUST)])
    .parse(|args| parse_group_start(args, false));

pub(crate) const XGROUP_DESTROY: Spec = Spec::write("xgroup|destroy", 4, &[KeySpec::at(2, KeyFlags::SHRINK)])
    .cost(Cost::Part)
    .parse(|args| {
        command(StreamCommand::DestroyGroup {
            key: args.arg(2),
            group: args.arg(3),
        })
    });

pub(crate) const XGROUP_CREATECONSUMER: Spec =
    Spec::write("xgroup|createconsumer", 5, &[KeySpec::at(2, KeyFlags::EXTEND)])
        .flags(Flags::DENYOOM)
        .parse(|args| {
            command(StreamCommand::CreateConsumer {
                key: args.arg(2),
                group: args.arg(3),
                consumer: args.arg(4),
            })
        });

pub(crate) const XGROUP_DELCONSUMER: Spec =
    Spec::write("xgroup|delconsumer", 5, &[KeySpec::at(2, KeyFlags::SHRINK)])
        .cost(Cost::Part)
        .parse(|args| {
            command(StreamCommand::DeleteConsumer {
                key: args.arg(2),
                group: args.arg(3),
                consumer: args.arg(4),
            })
        });

pub(crate) const XGROUP_HELP: Spec = Spec::help("xgroup|help");

pub(crate) const XINFO: Spec = Spec::container("xinfo");

pub(crate) const XINFO_STREAM: Spec = Spec::read("xinfo|stream", -3)
    .keys(&[KeySpec::at(2, KeyFlags::READ)])
    .cost(Cost::Part)
    .parse(parse_info);

pub(crate) const XINFO_GROUPS: Spec = Spec::read("xinfo|groups", 3)
    .keys(&[KeySpec::at(2, KeyFlags::READ)])
    .parse(|args| command(StreamCommand::GroupsInfo { key: args.arg(2) }));

pub(crate) const XINFO_CONSUMERS: Spec = Spec::read("xinfo|consumers", 4)
    .keys(&[KeySpec::at(2, KeyFlags::READ)])
    .tips("nondeterministic_output")
    .parse(|args| {
        command(StreamCommand::ConsumersInfo {
            key: args.arg(2),
            group: args.arg(3),
        })
    });

pub(crate) const XINFO_HELP: Spec = Spec::help("xinfo|help");
