//! Gateways of several nodes in one thread: commands go in, replies come out.

mod backups;
mod begun_anew;
mod client_deaths;
mod clocks;
mod cluster;
mod combining;
mod copying;
mod endpoint;
mod fanout;
mod full_disks;
mod loading;
mod long_values;
mod offload;
mod out_of_reach;
mod pipeline;
mod scripts;
mod scripts_at_once;
mod scripts_heavy;
mod scrub;
mod standstill;
mod topology;
mod transcripts;
mod waiters;
mod whole;
mod workers;
mod world;
