//! What the commands do that Redis has not: `CAS`, `ADD`, `SUB`, `XFER`.
//!
//! None of them makes a key, and all of them keep its deadline.

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::object::Kind;
use crate::string::integer;
use crate::value::Digits;
use command::ReplyError;

impl Apply<'_, '_> {
    pub(crate) fn cas(&mut self, key: &[u8], expected: &[u8], new: &[u8]) {
        let location = self.locate(key);
        let result = self.update_string(location, key, |change| {
            let is_equal = change.object.value().text(&mut Digits::default()) == expected;
            if is_equal {
                change.object.set_string(new);
                change.mark();
            }
            Ok(is_equal)
        });
        match result {
            Some(Ok(is_set)) => {
                if is_set {
                    self.event(EventClasses::STRING, "set", key);
                }
                self.out.integer(i64::from(is_set));
            }
            Some(Err(error)) => error.write(self.out),
            None => self.out.null(),
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], by: i64) {
        let after = self
            .balance(key)
            .and_then(|before| before.checked_add(by).ok_or(ReplyError::Overflow));
        self.put_balance_or_refuse(key, after);
    }

    /// The part of `XFER` that takes.
    pub(crate) fn take(&mut self, key: &[u8], amount: i64) {
        let after = self.balance(key).and_then(|before| less(before, amount));
        self.put_balance_or_refuse(key, after);
    }

    /// `XFER` within one group: what [`Apply::take`] and [`Apply::add`] do in two, checked before anything changes.
    pub(crate) fn xfer(&mut self, from: &[u8], to: &[u8], amount: i64) {
        match self.balances_after(from, to, amount) {
            Ok((left, grown)) => {
                if from != to {
                    self.put_balance(from, left);
                    self.put_balance(to, grown);
                }
                self.out.array(2);
                self.out.integer(left);
                self.out.integer(grown);
            }
            Err(error) => error.write(self.out),
        }
    }

    /// The balances that a transfer leaves. Between a key and itself, that is the one that was there.
    fn balances_after(&self, from: &[u8], to: &[u8], amount: i64) -> Result<(i64, i64), ReplyError> {
        let before = self.balance(from)?;
        let left = less(before, amount)?;
        if from == to {
            return Ok((before, before));
        }
        let grown = self.balance(to)?.checked_add(amount);
        Ok((left, grown.ok_or(ReplyError::Overflow)?))
    }

    fn balance(&self, key: &[u8]) -> Result<i64, ReplyError> {
        let object = self.peek(Kind::String, key)?.ok_or(ReplyError::NoSuchKey)?;
        integer(object.value())
    }

    fn put_balance_or_refuse(&mut self, key: &[u8], after: Result<i64, ReplyError>) {
        match after {
            Ok(balance) => {
                self.put_balance(key, balance);
                self.out.integer(balance);
            }
            Err(error) => error.write(self.out),
        }
    }

    fn put_balance(&mut self, key: &[u8], balance: i64) {
        let location = self.locate(key);
        let done = self.update(location, key, |change| {
            change.object.set_integer(balance);
            change.mark();
        });
        done.expect("the caller has just read it");
        // The event that Redis has for every change of a counter.
        self.event(EventClasses::STRING, "incrby", key);
    }
}

/// What is left of a balance. One below zero has nothing to give, not even nothing.
fn less(balance: i64, amount: i64) -> Result<i64, ReplyError> {
    if balance < amount {
        return Err(ReplyError::InsufficientBalance);
    }
    // A balance that is at least as large as what is taken, which is not negative, stays above zero.
    Ok(balance - amount)
}
