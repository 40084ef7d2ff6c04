//! Sorted sets: the specs of their commands.

use super::SortedSetCommand;
use super::parse::*;
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Cost, Flags, Spec};

pub(crate) const ZADD: Spec = Spec::write("zadd", -4, KeySpec::ADJUST)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_zadd);

pub(crate) const ZINCRBY: Spec = Spec::write("zincrby", 4, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_zincrby);

pub(crate) const ZREM: Spec = Spec::write("zrem", -3, KeySpec::SHRINK)
    .flags(Flags::FAST)
    .parse(|args| {
        command(SortedSetCommand::Remove {
            key: args.arg(1),
            members: args.from(2),
        })
    });

pub(crate) const ZCARD: Spec = Spec::look("zcard", 2)
    .flags(Flags::FAST)
    .parse(|args| command(SortedSetCommand::Card { key: args.arg(1) }));

pub(crate) const ZSCORE: Spec = Spec::read("zscore", 3).flags(Flags::FAST).parse(|args| {
    command(SortedSetCommand::Score {
        key: args.arg(1),
        member: args.arg(2),
    })
});

pub(crate) const ZMSCORE: Spec = Spec::read("zmscore", -3).flags(Flags::FAST).parse(|args| {
    command(SortedSetCommand::Scores {
        key: args.arg(1),
        members: args.from(2),
    })
});

pub(crate) const ZRANK: Spec = Spec::read("zrank", -3).flags(Flags::FAST).parse(parse_zrank);

pub(crate) const ZREVRANK: Spec = Spec::read("zrevrank", -3)
    .flags(Flags::FAST)
    .parse(parse_zrevrank);

pub(crate) const ZCOUNT: Spec = Spec::read("zcount", 4).flags(Flags::FAST).parse(parse_zcount);

pub(crate) const ZLEXCOUNT: Spec = Spec::read("zlexcount", 4)
    .flags(Flags::FAST)
    .parse(parse_zlexcount);

pub(crate) const ZRANGE: Spec = Spec::read("zrange", -4).cost(Cost::Part).parse(parse_zrange);

pub(crate) const ZRANGESTORE: Spec = Spec::write_several("zrangestore", -5)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .cost(Cost::Part)
    .parse(parse_zrangestore);

pub(crate) const ZREVRANGE: Spec = Spec::read("zrevrange", -4)
    .cost(Cost::Part)
    .parse(parse_zrevrange);

pub(crate) const ZRANGEBYSCORE: Spec = Spec::read("zrangebyscore", -4)
    .cost(Cost::Part)
    .parse(parse_zrangebyscore);

pub(crate) const ZREVRANGEBYSCORE: Spec = Spec::read("zrevrangebyscore", -4)
    .cost(Cost::Part)
    .parse(parse_zrevrangebyscore);

pub(crate) const ZRANGEBYLEX: Spec = Spec::read("zrangebylex", -4)
    .cost(Cost::Part)
    .parse(parse_zrangebylex);

pub(crate) const ZREVRANGEBYLEX: Spec = Spec::read("zrevrangebylex", -4)
    .cost(Cost::Part)
    .parse(parse_zrevrangebylex);

pub(crate) const ZREMRANGEBYRANK: Spec = Spec::write("zremrangebyrank", 4, KeySpec::SHRINK)
    .cost(Cost::Part)
    .parse(parse_zremrangebyrank);

pub(crate) const ZREMRANGEBYSCORE: Spec = Spec::write("zremrangebyscore", 4, KeySpec::SHRINK)
    .cost(Cost::Part)
    .parse(parse_zremrangebyscore);

pub(crate) const ZREMRANGEBYLEX: Spec = Spec::write("zremrangebylex", 4, KeySpec::SHRINK)
    .cost(Cost::Part)
    .parse(parse_zremrangebylex);

pub(crate) const ZPOPMIN: Spec = Spec::write("zpopmin", -2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .cost(Cost::Part)
    .parse(parse_zpopmin);

pub(crate) const ZPOPMAX: Spec = Spec::write("zpopmax", -2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .cost(Cost::Part)
    .parse(parse_zpopmax);

pub(crate) const ZMPOP: Spec = Spec::write_several("zmpop", -4)
    .keys(&[KeySpec::counted(1, KeyFlags::TAKE)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_zmpop);

pub(crate) const ZUNION: Spec = Spec::read_several("zunion", -3)
    .keys(&[KeySpec::counted(1, KeyFlags::READ)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_zunion);

pub(crate) const ZINTER: Spec = Spec::read_several("zinter", -3)
    .keys(&[KeySpec::counted(1, KeyFlags::READ)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_zinter);

pub(crate) const ZDIFF: Spec = Spec::read_several("zdiff", -3)
    .keys(&[KeySpec::counted(1, KeyFlags::READ)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_zdiff);

pub(crate) const ZUNIONSTORE: Spec = Spec::write_several("zunionstore", -4)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(parse_zunionstore);

pub(crate) const ZINTERSTORE: Spec = Spec::write_several("zinterstore", -4)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(parse_zinterstore);

pub(crate) const ZDIFFSTORE: Spec = Spec::write_several("zdiffstore", -4)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(parse_zdiffstore);

pub(crate) const ZINTERCARD: Spec = Spec::read_several("zintercard", -3)
    .keys(&[KeySpec::counted(1, KeyFlags::READ)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_zintercard);

pub(crate) const ZRANDMEMBER: Spec = Spec::read("zrandmember", -2)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_zrandmember);

pub(crate) const ZSCAN: Spec = Spec::read("zscan", -3)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_zscan);
