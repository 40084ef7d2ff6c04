//! Scripts as their host sees them; and beside a real Redis, whose answers must be the same.

mod budgets;
mod corpus;
mod generate;
mod host;
mod hostile;
mod libraries;
mod redis;
mod replies;
mod suspension;
