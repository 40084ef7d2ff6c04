//! What the gateway answers itself: no group takes part.
//!
//! Each family has a file. The functions that answer write to `out` in the connection's protocol and return an
//! error before they have written anything, so that a reply is one whole value whatever happens.

mod client;
mod cluster;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod debug;
pub(crate) mod info;
mod latency;
mod lolwut;
mod memory;
mod pause;
pub(crate) mod script;
pub(crate) mod server;
mod slowlog;
mod transaction;

use crate::blocking::Blocking;
use crate::gateway::Gateway;
use crate::pubsub::{self, SubscriptionKind};
use crate::session::Session;
use command::{CommandId, ReplyError, Spec};
use resp::{Args, ReplyWriter};

/// Carries out a command that concerns no group, writing its reply to `out`.
pub(crate) fn run_own(
    gateway: &mut Gateway,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
    out: &mut Vec<u8>,
) {
    if let Err(error) = answer_own(gateway, session, spec, args, out) {
        error.write(&mut ReplyWriter::new(out, session.protocol));
    }
}

fn answer_own(
    gateway: &mut Gateway,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ReplyError> {
    let mut writer = ReplyWriter::new(out, session.protocol);
    let w = &mut writer;
    let is_of = |family: &str| spec.name.starts_with(family);
    let Gateway {
        cx,
        pubsub,
        pausing,
        blocking,
        fanout,
        ..
    } = &mut *gateway;
    match spec.id {
        // The connection.
        CommandId::Hello => return connection::hello(cx, session, args, out),
        CommandId::Auth => connection::auth(cx, session, args, w)?,
        CommandId::Ping => connection::ping(session, args, w)?,
        CommandId::Echo => w.bulk(args.arg(1)),
        CommandId::Quit => connection::quit(session, w),
        CommandId::Reset => connection::reset(cx, pubsub, session, out),
        CommandId::Select => connection::select(session, args, w)?,

        // Other connections.
        CommandId::ClientId => w.integer(session.info.id as i64),
        CommandId::ClientInfo => client::info(cx, session, args, w),
        CommandId::ClientList => client::list(cx, session, args, w)?,
        CommandId::ClientKill => client::kill(cx, session, args, w)?,
        CommandId::ClientGetName => client::get_name(session, w),
        CommandId::ClientSetName => client::set_name(session, args, w)?,
        CommandId::ClientSetInfo => client::set_info(session, args, w)?,
        CommandId::ClientReply => client::reply(session, args, w)?,
        CommandId::ClientNoEvict => client::no_evict(session, args, w)?,
        CommandId::ClientUnblock => {
            client::unblock(cx, blocking, args, w)?;
            gateway.route();
        }
        CommandId::ClientRequest => crate::idempotency::name_request(session, args, w)?,
        CommandId::ClientNoTouch => client::no_touch(session, args, w)?,
        CommandId::ClientPause => pause::pause(cx, pausing, args, w)?,
        CommandId::ClientUnpause => pause::unpause(cx, pausing, w),
        CommandId::ClientGetRedir => w.integer(-1),
        CommandId::ClientTrackingInfo => client::tracking_info(w),

        // Channels. `PUBLISH` and these two come here only inside EXEC.
        CommandId::Subscribe => pubsub.subscribe(cx, session, SubscriptionKind::Channel, args.from(1), w),
        CommandId::PSubscribe => pubsub.subscribe(cx, session, SubscriptionKind::Pattern, args.from(1), w),
        CommandId::SSubscribe => return Err(ReplyError::ShardSubscribeDenied),
        CommandId::Monitor => return Err(ReplyError::MonitorDenied),
        CommandId::Unsubscribe => pubsub.unsubscribe(cx, session, SubscriptionKind::Channel, args.from(1), w),
        CommandId::PUnsubscribe => {
            pubsub.unsubscribe(cx, session, SubscriptionKind::Pattern, args.from(1), w)
        }
        CommandId::SUnsubscribe => {
            pubsub.unsubscribe(cx, session, SubscriptionKind::ShardChannel, args.from(1), w)
        }
        CommandId::Publish => pubsub.publish_now(cx, SubscriptionKind::Channel, args, w),
        CommandId::SPublish => pubsub.publish_now(cx, SubscriptionKind::ShardChannel, args, w),
        CommandId::PubSubChannels => pubsub::channels(cx, SubscriptionKind::Channel, args, w)?,
        CommandId::PubSubShardChannels => pubsub::channels(cx, SubscriptionKind::ShardChannel, args, w)?,
        CommandId::PubSubNumSub => pubsub::counts(cx, SubscriptionKind::Channel, args.from(2), w),
        CommandId::PubSubShardNumSub => pubsub::counts(cx, SubscriptionKind::ShardChannel, args.from(2), w),
        CommandId::PubSubNumPat => w.integer(cx.shared.subscriptions.names(SubscriptionKind::Pattern) as i64),

        // The server.
        CommandId::Info => {
            gateway.refresh_stats();
            info::info(&gateway.cx, session.endpoint, args, None, w);
        }
        CommandId::ConfigGet => config::get(cx, args, w),
        CommandId::ConfigSet => {
            config::set(cx, args)?;
            // The commands that follow in this turn already see it.
            gateway.load_settings();
            w.ok();
        }
        CommandId::ConfigResetStat => {
            cx.local.reset_counters();
            gateway.refresh_stats();
            config::reset_stats(&mut gateway.cx, w);
        }
        CommandId::ConfigRewrite => config::rewrite(cx, w)?,
        CommandId::Time => server::time(cx, w),
        CommandId::Wait => Blocking::wait_at_once(cx, args, w)?,
        CommandId::WaitAof => Blocking::wait_aof_at_once(cx, args, w)?,
        CommandId::MemoryStats => {
            gateway.refresh_stats();
            memory::stats(&gateway.cx, w);
        }
        CommandId::MemoryDoctor => {
            gateway.refresh_stats();
            memory::doctor(&gateway.cx, w);
        }
        CommandId::MemoryMallocStats => memory::malloc_stats(cx, w),
        CommandId::MemoryPurge => memory::purge(cx, w),
        CommandId::ModuleList => w.array(0),
        CommandId::Role => server::role(w),
        CommandId::LastSave => server::last_save(cx, w),
        CommandId::BgSave | CommandId::BgRewriteAof => {
            server::save_in_background(cx, fanout, spec, args, w)?;
        }
        CommandId::ScriptLoad => script::load(cx, args, w),
        CommandId::ScriptExists => script::exists(cx, args, w),
        CommandId::ScriptFlush => script::flush(cx, args, w)?,
        CommandId::ScriptKill => script::kill(cx, false, w),
        CommandId::FunctionKill => script::kill(cx, true, w),
        CommandId::SlowLogGet => slowlog::get(cx, args, w)?,
        CommandId::SlowLogLen => slowlog::len(cx, w),
        CommandId::SlowLogReset => slowlog::reset(cx, w),
        CommandId::LatencyDoctor => latency::doctor(cx, w),
        CommandId::LatencyGraph => latency::draw(cx, args, w)?,
        CommandId::LatencyHistogram => latency::histogram(cx, args, w),
        CommandId::LatencyHistory => latency::history(cx, args, w),
        CommandId::LatencyLatest => latency::latest(cx, w),
        CommandId::LatencyReset => latency::reset(cx, args, w),
        CommandId::LolWut => lolwut::lolwut(cx, args, w)?,
        CommandId::PfSelfTest => keyspace::hyperloglog_self_test(w),
        CommandId::Shutdown => server::shutdown(cx, session, args)?,
        CommandId::Debug => debug::debug(cx, session, args, w)?,

        // The cluster.
        CommandId::ReadOnly => cluster::read_at_replicas(session, true, w),
        CommandId::ReadWrite => cluster::read_at_replicas(session, false, w),
        // Nobody is sent elsewhere for one command only, so there is nothing to remember.
        CommandId::Asking => w.ok(),

        // Transactions.
        CommandId::Multi => transaction::multi(session, w)?,
        CommandId::Discard => transaction::discard(session, w)?,
        CommandId::Unwatch => transaction::unwatch(session, w),
        CommandId::Exec
        | CommandId::Watch
        | CommandId::Save
        | CommandId::Eval
        | CommandId::EvalRo
        | CommandId::EvalSha
        | CommandId::EvalShaRo
        | CommandId::FCall
        | CommandId::FCallRo
        | CommandId::FunctionLoad
        | CommandId::FunctionDelete
        | CommandId::FunctionFlush
        | CommandId::FunctionList
        | CommandId::FunctionDump
        | CommandId::FunctionRestore
        | CommandId::FunctionStats => {
            unreachable!("{} is answered with the help of others", spec.name)
        }

        // Families that have one answer each.
        _ if spec.name.ends_with("|help") => command::introspect::help(spec, w),
        _ if is_of("cluster|") => cluster::cluster(cx, session, spec, args, w)?,
        _ if is_of("command") => command::introspect::command(args, w),

        // Containers: resolving the words asks for one of their subcommands.
        CommandId::Backup
        | CommandId::Client
        | CommandId::Cluster
        | CommandId::PubSub
        | CommandId::Config
        | CommandId::Memory
        | CommandId::SlowLog
        | CommandId::Latency
        | CommandId::Object
        | CommandId::Function
        | CommandId::Script
        | CommandId::Module => {
            return Err(ReplyError::unknown_subcommand(
                spec.name,
                args.get(1).unwrap_or_default(),
            ));
        }

        // A test asks for every command of the table, so that none can be forgotten above.
        _ => unreachable!("{} concerns groups", spec.name),
    }
    Ok(())
}
