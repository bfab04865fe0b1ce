//! Accounts: what an application may submit. They are asked only where [`Rules::accounts`] says so,
//! since every message then takes one more lock, shared by all of its account, and one more write.

use super::outcome::Outcome;
use super::refusal::Refusal;
use super::rules::Rules;
use crate::model::{Account, PASSWORD_HASH_MAX, StationKey, Value};
use crate::transaction::{StoreError, Transaction};

/// Length of the interval in which [`Account::rate_max`] messages may be submitted, µs.
const SECOND_US: i64 = 1_000_000;
/// The greatest number in a column of 4 octets.
const NUMBER_MAX: u64 = i32::MAX as u64;

/// Counts one message of an account, or tells why it may not be submitted. Locks the account, after
/// the station.
pub(super) fn charge(
    tx: &mut impl Transaction,
    rules: &Rules,
    account: u32,
    now_us: i64,
) -> Result<Option<Refusal>, StoreError> {
    if !rules.accounts {
        return Ok(None);
    }
    tx.lock(StationKey::lock_of_account(account))?;
    let Some(mut row) = find(tx, account)? else { return Ok(Some(Refusal::NoSuchAccount)) };
    if row.quota > 0 && row.submitted >= row.quota {
        return Ok(Some(Refusal::QuotaExceeded));
    }
    let second_us = now_us - now_us.rem_euclid(SECOND_US);
    // Transactions may come in another order than their times: an earlier second counts for the one
    // that has begun.
    if second_us > row.second_us {
        (row.second_us, row.in_second) = (second_us, 0);
    }
    if row.rate_max > 0 && row.in_second >= row.rate_max {
        return Ok(Some(Refusal::Throttled));
    }
    row.submitted += 1;
    row.in_second += 1;
    if tx.update::<Account>(&[Value::Int(account.into())], &row.counters())? {
        Ok(None)
    } else {
        Err(StoreError::inconsistent(format!("account {account} does not exist any more")))
    }
}

/// Opens an account, or gives it other limits and another password; what it has submitted remains
/// counted. Refused if a store could not keep a field: it would fail, and its session with it.
pub(super) fn put(tx: &mut impl Transaction, account: &Account) -> Result<Outcome, StoreError> {
    let fields = [
        ("binds_max", account.binds_max.into(), NUMBER_MAX),
        ("window_max", account.window_max.into(), NUMBER_MAX),
        ("rate_max", account.rate_max.into(), NUMBER_MAX),
        ("octets of password_hash", account.password_hash.len() as u64, PASSWORD_HASH_MAX),
    ];
    if let Some(&(field, value, max)) = fields.iter().find(|field| field.1 > field.2) {
        return Ok(Outcome::Refused(Refusal::TooGreat { field, value, max }));
    }
    tx.lock(StationKey::lock_of_account(account.account))?;
    let mut row = account.clone();
    let before = find(tx, account.account)?;
    (row.submitted, row.second_us, row.in_second) =
        before.map_or((0, 0, 0), |before| (before.submitted, before.second_us, before.in_second));
    tx.put(&row)?;
    Ok(Outcome::Count(1))
}

pub(super) fn find(tx: &mut impl Transaction, account: u32) -> Result<Option<Account>, StoreError> {
    tx.get::<Account>(&[Value::Int(account.into())])
}
