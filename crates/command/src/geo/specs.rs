//! Positions: the specs of their commands.

use super::GeoCommand;
use super::parse::*;
use crate::Command;
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Cost, Flags, Spec};

pub(crate) const GEOADD: Spec = Spec::write("geoadd", -5, KeySpec::ADJUST)
    .flags(Flags::DENYOOM)
    .parse(add);

pub(crate) const GEOPOS: Spec = Spec::read("geopos", -2).parse(|args| {
    Ok(Command::Geo(GeoCommand::Positions {
        key: args.arg(1),
        members: args.from(2),
    }))
});

pub(crate) const GEODIST: Spec = Spec::read("geodist", -4).parse(distance);

pub(crate) const GEOHASH: Spec = Spec::read("geohash", -2).parse(|args| {
    Ok(Command::Geo(GeoCommand::Hashes {
        key: args.arg(1),
        members: args.from(2),
    }))
});

pub(crate) const GEOSEARCH: Spec = Spec::read("geosearch", -7).cost(Cost::Part).parse(search);

pub(crate) const GEOSEARCHSTORE: Spec = Spec::write_several("geosearchstore", -8)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .cost(Cost::Part)
    .parse(search_store);

pub(crate) const GEORADIUS: Spec = Spec::write_several("georadius", -6)
    .keys(&[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 6, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 6, KeyFlags::OVERWRITE),
    ])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(|args| radius(args, Form::RadiusStoring));

pub(crate) const GEORADIUS_RO: Spec = Spec::read("georadius_ro", -6)
    .cost(Cost::Part)
    .parse(|args| radius(args, Form::Radius));

pub(crate) const GEORADIUSBYMEMBER: Spec = Spec::write_several("georadiusbymember", -5)
    .keys(&[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 5, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 5, KeyFlags::OVERWRITE),
    ])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(|args| radius_by_member(args, Form::RadiusStoring));

pub(crate) const GEORADIUSBYMEMBER_RO: Spec = Spec::read("georadiusbymember_ro", -5)
    .cost(Cost::Part)
    .parse(|args| radius_by_member(args, Form::Radius));
