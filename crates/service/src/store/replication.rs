//! What a follower needs of a store: each batch as operations, the position behind it, and snapshots.
//!
//! The position is stored in the batch's own transaction, so that after any end of the process the store says exactly what it has. Its chain
//! is a hash of all batches: two stores with the same number and chain have the same contents, whatever happened to either in between.

use core::ops::Bound;

use redb::{
    ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction,
};
use xxhash_rust::xxh3::Xxh3;

use super::disk::{
    ABOUT, CONSUMERS, Disk, EVENTS, IDENTITY, ORIGINS_SEEN, PARTS, Phases, StoreError, VERSION_KEY, VERSION_REPLICATED,
};

/// The state of replication: a [`Position`] at [`POSITION_KEY`], and a [`StandbyRecord`] at [`RECORD_KEY`].
const STANDBY: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("standby");
const POSITION_KEY: &str = "position";
const RECORD_KEY: &str = "record";

/// The contents of a store behind a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The epoch in which the batch was made.
    pub(crate) epoch: u64,
    /// The batch's number. Numbers go on over epochs.
    pub(crate) number: u64,
    /// A hash of this batch and all before it.
    pub(crate) chain: u128,
}

impl Position {
    pub(crate) const BYTES: usize = 32;

    /// The position behind another batch.
    pub(crate) fn behind(self, epoch: u64, operations: &[u8]) -> Self {
        let number = self.number.saturating_add(1);
        let mut hash = Xxh3::new();
        hash.update(&self.chain.to_le_bytes());
        hash.update(&number.to_le_bytes());
        hash.update(operations);
        Self { epoch, number, chain: hash.digest128() }
    }

    /// Whether a store there has the same contents.
    pub(crate) fn is_same(self, other: Self) -> bool {
        (self.number, self.chain) == (other.number, other.chain)
    }

    /// The encoded form: the fields in order, little-endian.
    pub(crate) fn octets(self) -> [u8; Self::BYTES] {
        let Self { epoch, number, chain } = self;
        let mut octets = [0; Self::BYTES];
        let fields = epoch.to_le_bytes().into_iter().chain(number.to_le_bytes()).chain(chain.to_le_bytes());
        octets.iter_mut().zip(fields).for_each(|(to, octet)| *to = octet);
        octets
    }

    /// Decodes a position.
    pub(crate) fn read(octets: [u8; Self::BYTES]) -> Self {
        let mut rest = &octets[..];
        let mut long = || rest.split_off(..8).and_then(|octets| octets.try_into().ok()).map_or(0, u64::from_le_bytes);
        let (epoch, number, low, high) = (long(), long(), long(), long());
        Self { epoch, number, chain: u128::from(high) << 64 | u128::from(low) }
    }
}

/// The role of a store's process in a pair of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It serves, and ships its batches.
    Leader,
    /// It takes a leader's batches, and serves no client.
    Follower,
}

/// The role and the epoch, which are stored beside the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StandbyRecord {
    pub(crate) part: Part,
    /// A leader's epoch, or the highest one that a follower has seen: it takes nothing of a lower one.
    pub(crate) epoch: u64,
    /// Whether the store has a whole copy. A leader's always has.
    pub(crate) is_whole: bool,
    /// Whether the store was a leader's since its copy began: it may have batches that no other store has.
    pub(crate) has_led: bool,
    /// The position at which the leader's epoch began.
    pub(crate) began_at: Position,
}

impl StandbyRecord {
    const BYTES: usize = 11 + Position::BYTES;

    fn octets(&self) -> [u8; Self::BYTES] {
        let Self { part, epoch, is_whole, has_led, began_at } = *self;
        let flags = [u8::from(part == Part::Leader), u8::from(is_whole), u8::from(has_led)];
        let mut octets = [0; Self::BYTES];
        let fields = flags.into_iter().chain(epoch.to_le_bytes()).chain(began_at.octets());
        octets.iter_mut().zip(fields).for_each(|(to, octet)| *to = octet);
        octets
    }

    fn read(octets: &[u8]) -> Option<Self> {
        let ([leads, whole, led], rest) = octets.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        Some(Self {
            part: if *leads == 1 { Part::Leader } else { Part::Follower },
            epoch: u64::from_le_bytes(*epoch),
            is_whole: *whole == 1,
            has_led: *led == 1,
            began_at: Position::read(rest.try_into().ok()?),
        })
    }
}

/// The receiver of a store's batches. All is called by the thread that writes them.
pub(crate) trait Replication: Send {
    /// A batch is about to be committed behind the `found` position. Returns the position behind it, which is stored with it.
    fn begin(&mut self, found: Position, operations: Vec<u8>) -> Position;

    /// The commit has ended. After a failure the batch may be on the disk all the same: the next `begin` or `snapshot` tells.
    fn end(&mut self, is_committed: bool);

    /// Whether anything may be written for which an acknowledgement is due.
    fn may_write(&self) -> Result<(), StoreError>;

    /// Waits until what was written may be acknowledged.
    fn confirm(&mut self) -> Result<(), StoreError>;

    /// Whether a snapshot is due.
    fn needs_snapshot(&self) -> bool;

    /// Takes a snapshot of the contents, or why there is none.
    fn take_snapshot(&mut self, snapshot: Result<Snapshot, StoreError>);

    /// The record to be stored, if the role has changed.
    fn record_due(&self) -> Option<StandbyRecord>;

    /// The record is on the disk.
    fn note_recorded(&mut self);

    /// Whether another leader has taken over: nothing can be acknowledged any more.
    fn is_superseded(&self) -> bool;
}

/// A table, as operations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Parts = 0,
    Events = 1,
    Consumers = 2,
    Identity = 3,
    Origins = 4,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Parts, Self::Events, Self::Consumers, Self::Identity, Self::Origins];
}

/// The flag of an operation that removes its key.
const REMOVES: u8 = 0x80;

/// Appends an operation, if replication sees the batch. Without a value the key is removed.
pub(super) fn note(operations: &mut Option<Vec<u8>>, kind: Kind, key: &[u8], value: Option<&[u8]>) {
    if let Some(operations) = operations {
        append(operations, kind, key, value);
    }
}

fn append(operations: &mut Vec<u8>, kind: Kind, key: &[u8], value: Option<&[u8]>) {
    // Records are bounded far below 4 GiB by the size of messages.
    let length = |octets: &[u8]| u32::try_from(octets.len()).unwrap_or(0).to_le_bytes();
    operations.push(kind as u8 | if value.is_none() { REMOVES } else { 0 });
    for octets in [Some(key), value].into_iter().flatten() {
        operations.extend(length(octets));
        operations.extend_from_slice(octets);
    }
}

/// An operation: a table, a key, and the new value.
type Operation<'o> = (Kind, &'o [u8], Option<&'o [u8]>);

/// Splits off the first operation. `None` if the octets are none.
fn first_operation<'o>(rest: &mut &'o [u8]) -> Option<Operation<'o>> {
    let tag = *rest.split_off_first()?;
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == tag & !REMOVES)?;
    let mut text = || {
        let length = rest.split_off(..4)?.try_into().ok().map(u32::from_le_bytes)?;
        rest.split_off(..usize::try_from(length).ok()?)
    };
    let key = text()?;
    let value = if tag & REMOVES == 0 { Some(text()?) } else { None };
    Some((kind, key, value))
}

/// Whether operations store anything, rather than only removing.
pub(crate) fn stores_something(operations: &[u8]) -> bool {
    let mut rest = operations;
    while let Some((_, _, value)) = first_operation(&mut rest) {
        if value.is_some() {
            return true;
        }
    }
    false
}

fn position_in(standby: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Position, StoreError> {
    let octets = standby.get(POSITION_KEY)?;
    Ok(octets.and_then(|octets| octets.value().try_into().ok()).map(Position::read).unwrap_or_default())
}

/// Has replication see a batch, and stores the position behind it.
pub(super) fn begin(
    begun: &WriteTransaction,
    replication: &mut dyn Replication,
    operations: Vec<u8>,
) -> Result<(), StoreError> {
    let mut standby = begun.open_table(STANDBY)?;
    let found = position_in(&standby)?;
    let position = replication.begin(found, operations);
    let stored = standby.insert(POSITION_KEY, &position.octets()[..]).map(drop);
    if stored.is_err() {
        replication.end(false);
    }
    Ok(stored?)
}

impl Disk {
    /// The stored record and position, if the store ever took part in replication.
    pub(crate) fn standby(&mut self) -> Result<Option<(StandbyRecord, Position)>, StoreError> {
        let begun = self.database()?.begin_read()?;
        let standby = match begun.open_table(STANDBY) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            opened => opened?,
        };
        let record = standby.get(RECORD_KEY)?.and_then(|octets| StandbyRecord::read(octets.value()));
        record.map(|record| Ok((record, position_in(&standby)?))).transpose()
    }

    /// Stores the record, and the position if it is another. Releases without replication refuse the store from now on.
    pub(crate) fn keep_standby(&mut self, record: StandbyRecord, at: Option<Position>) -> Result<(), StoreError> {
        self.transact(Phases::Two, |begun| {
            begun.open_table(ABOUT)?.insert(VERSION_KEY, VERSION_REPLICATED)?;
            let mut standby = begun.open_table(STANDBY)?;
            standby.insert(RECORD_KEY, &record.octets()[..])?;
            if let Some(at) = at {
                standby.insert(POSITION_KEY, &at.octets()[..])?;
            }
            Ok(())
        })
    }

    /// Whether nothing was ever configured or stored.
    pub(crate) fn is_empty(&mut self) -> Result<bool, StoreError> {
        let begun = self.database()?.begin_read()?;
        Ok(begun.open_table(PARTS)?.is_empty()? && begun.open_table(EVENTS)?.is_empty()?)
    }

    /// Commits operations of a leader: rows of a copy, or a batch between the two positions. A batch is refused if the store is not at the
    /// first one: a commit that was reported as failed may be on the disk.
    pub(crate) fn apply(&mut self, operations: &[u8], between: Option<(Position, Position)>) -> Result<(), StoreError> {
        // A batch that only removes is to succeed on a full disk.
        if stores_something(operations) && !self.room().make_room(operations.len() as u64) {
            return Err(StoreError::Standby("its disk is full".to_owned()));
        }
        let mut rest = operations;
        let is_of_events = rest.first().is_none_or(|tag| tag & !REMOVES != Kind::Parts as u8);
        let phases = if is_of_events && between.is_some() { Phases::One } else { Phases::Two };
        self.transact(phases, |begun| {
            if let Some((from, to)) = between {
                let mut standby = begun.open_table(STANDBY)?;
                let found = position_in(&standby)?;
                if !found.is_same(from) {
                    let why = format!("batch {} does not follow on {}, which the disk has", to.number, found.number);
                    return Err(StoreError::Standby(why));
                }
                standby.insert(POSITION_KEY, &to.octets()[..])?;
            }
            let mut tables = Tables::open(begun)?;
            while !rest.is_empty() {
                let operation = first_operation(&mut rest);
                let operation = operation.ok_or_else(|| StoreError::Standby("a batch cannot be read".to_owned()))?;
                tables.run(operation)?;
            }
            Ok(())
        })
    }

    /// A snapshot of the contents, for a follower's copy.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let begun = self.database()?.begin_read()?;
        let position = position_in(&begun.open_table(STANDBY)?)?;
        Ok(Snapshot { begun, position, table: 0, after: None })
    }

    /// Stores the record of another role, if one is due.
    pub(super) fn record_role(&mut self) -> Result<(), StoreError> {
        let Some(record) = self.replication().and_then(|replication| replication.record_due()) else { return Ok(()) };
        self.keep_standby(record, None)?;
        if let Some(replication) = self.replication() {
            replication.note_recorded();
        }
        Ok(())
    }

    /// Gives a snapshot to replication, if one is due.
    pub(super) fn give_snapshot(&mut self) {
        if self.replication().is_some_and(|replication| replication.needs_snapshot()) {
            let snapshot = self.snapshot();
            if let Some(replication) = self.replication() {
                replication.take_snapshot(snapshot);
            }
        }
    }

    /// Whether anything may be written that is to be acknowledged.
    pub(super) fn may_write(&mut self) -> Result<(), StoreError> {
        self.replication().map_or(Ok(()), |replication| replication.may_write())
    }

    /// Whether another leader has taken over.
    pub(super) fn is_superseded(&mut self) -> bool {
        self.replication().is_some_and(|replication| replication.is_superseded())
    }

    /// Waits until the last batch may be acknowledged.
    pub(super) fn confirm(&mut self) -> Result<(), StoreError> {
        self.replication().map_or(Ok(()), Replication::confirm)
    }
}

/// A table of a transaction.
type Opened<'t, K> = (Kind, redb::Table<'t, K, &'static [u8]>);

/// The tables of a transaction.
struct Tables<'t> {
    by_text: [Opened<'t, &'static [u8]>; 3],
    by_number: [Opened<'t, u64>; 2],
}

impl<'t> Tables<'t> {
    fn open(begun: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            by_text: [
                (Kind::Parts, begun.open_table(PARTS)?),
                (Kind::Identity, begun.open_table(IDENTITY)?),
                (Kind::Origins, begun.open_table(ORIGINS_SEEN)?),
            ],
            by_number: [(Kind::Events, begun.open_table(EVENTS)?), (Kind::Consumers, begun.open_table(CONSUMERS)?)],
        })
    }

    fn run(&mut self, (kind, key, value): Operation<'_>) -> Result<(), StoreError> {
        if let Some((_, table)) = self.by_text.iter_mut().find(|(of, _)| *of == kind) {
            match value {
                Some(value) => table.insert(key, value).map(drop)?,
                None => table.remove(key).map(drop)?,
            }
        }
        if let Some((_, table)) = self.by_number.iter_mut().find(|(of, _)| *of == kind) {
            let number = key.try_into().map(u64::from_le_bytes);
            let number = number.map_err(|_| StoreError::Standby("a batch has a key that is no number".to_owned()))?;
            match value {
                Some(value) => table.insert(number, value).map(drop)?,
                None => table.remove(number).map(drop)?,
            }
        }
        Ok(())
    }
}

/// The contents of a store at one position, read while it is written. Until it is dropped, the database's file cannot be opened anew.
pub(crate) struct Snapshot {
    begun: ReadTransaction,
    pub(crate) position: Position,
    /// Index of the table that is read, and the last key read of it.
    table: usize,
    after: Option<Vec<u8>>,
}

impl Snapshot {
    /// The next rows as operations: about this many octets. `None` behind the last one.
    pub(crate) fn read(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let mut rows = Vec::new();
        while let Some(kind) = Kind::ALL.get(self.table).copied() {
            let last = match kind {
                Kind::Parts => self.read_texts(kind, PARTS, bytes, &mut rows)?,
                Kind::Identity => self.read_texts(kind, IDENTITY, bytes, &mut rows)?,
                Kind::Origins => self.read_texts(kind, ORIGINS_SEEN, bytes, &mut rows)?,
                Kind::Events => self.read_numbers(kind, EVENTS, bytes, &mut rows)?,
                Kind::Consumers => self.read_numbers(kind, CONSUMERS, bytes, &mut rows)?,
            };
            if last.is_some() {
                self.after = last;
                return Ok(Some(rows));
            }
            (self.table, self.after) = (self.table + 1, None);
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// Reads on in a table. Returns the last key if there may be more.
    fn read_texts(
        &self,
        kind: Kind,
        table: TableDefinition<'_, &'static [u8], &'static [u8]>,
        bytes: usize,
        rows: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.begun.open_table(table)?;
        let from = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for entry in table.range::<&[u8]>((from, Bound::Unbounded))? {
            let (key, value) = entry?;
            append(rows, kind, key.value(), Some(value.value()));
            if rows.len() >= bytes {
                return Ok(Some(key.value().to_vec()));
            }
        }
        Ok(None)
    }

    fn read_numbers(
        &self,
        kind: Kind,
        table: TableDefinition<'_, u64, &'static [u8]>,
        bytes: usize,
        rows: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.begun.open_table(table)?;
        let after = self.after.as_deref().and_then(|key| key.try_into().ok()).map(u64::from_le_bytes);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in table.range::<u64>((from, Bound::Unbounded))? {
            let (key, value) = entry?;
            let key = key.value().to_le_bytes();
            append(rows, kind, &key, Some(value.value()));
            if rows.len() >= bytes {
                return Ok(Some(key.to_vec()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_records_are_read_as_they_were_written() {
        let position = Position { epoch: 3, number: 1 << 40, chain: u128::MAX - 7 };
        assert_eq!(Position::read(position.octets()), position);
        for part in [Part::Leader, Part::Follower] {
            let record = StandbyRecord { part, epoch: 9, is_whole: true, has_led: false, began_at: position };
            assert_eq!(StandbyRecord::read(&record.octets()), Some(record));
            assert_eq!(StandbyRecord::read(&record.octets()[1..]), None);
        }
    }

    #[test]
    fn operations_are_read_as_they_were_noted_and_a_part_of_one_is_none() {
        let mut operations = Some(Vec::new());
        note(&mut operations, Kind::Parts, b"key", Some(b"value"));
        note(&mut operations, Kind::Origins, b"", None);
        note(&mut operations, Kind::Events, &7_u64.to_le_bytes(), Some(b""));
        let operations = operations.unwrap();
        let mut rest = &operations[..];
        assert_eq!(first_operation(&mut rest), Some((Kind::Parts, &b"key"[..], Some(&b"value"[..]))));
        let first = operations.len() - rest.len();
        assert!((0..first).all(|length| first_operation(&mut &operations[..length]).is_none()));
        assert_eq!(first_operation(&mut rest), Some((Kind::Origins, &b""[..], None)));
        assert_eq!(first_operation(&mut rest), Some((Kind::Events, &7_u64.to_le_bytes()[..], Some(&b""[..]))));
        assert_eq!((rest, first_operation(&mut &b"\x05\0\0\0\0"[..])), (&b""[..], None));
    }

    #[test]
    fn a_chain_says_whether_two_stores_have_had_the_same_batches() {
        let first = Position::default().behind(1, b"a");
        assert!(first.behind(1, b"b").is_same(first.behind(2, b"b")), "whatever the epoch");
        assert!(!first.behind(1, b"b").is_same(first.behind(1, b"c")));
        assert!(!first.behind(1, b"b").is_same(Position::default().behind(1, b"x").behind(1, b"b")));
    }
}
