//! The order in which PyTorch visits small hash containers (R3.16): displacement hashing with a Fibonacci slot.

/// What decides the slot, and who it is: a graph's pool {1,0} and a user's pool {0,1} have one slot and are two.
pub type Key = (u64, (u64, u64));

/// A set of keys, visited by rising slot.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// (key, distance from its own slot). There are as many slots behind the last own slot as a probe may be long.
    slots: Vec<Option<(Key, usize)>>,
    log2: u32,
    len: usize,
}

/// The key of a stream of device 0: pool stream k has the id 32·(k−1) + 3.
pub fn stream_key(raw: u64) -> Key {
    let id = if raw == 0 { 0 } else { 32 * (raw - 1) + 3 };
    ((1 << 56) | id, (raw, 0))
}

/// The key of a memory pool.
pub fn pool_key((a, b): (u64, u64)) -> Key {
    (if a != 0 { a } else { b }, (a, b))
}

impl Table {
    fn longest_probe(&self) -> usize {
        (self.log2 as usize).max(4)
    }

    fn own_slot(&self, key: Key) -> usize {
        (key.0.wrapping_mul(11_400_714_819_323_198_485) >> (64 - self.log2)) as usize
    }

    fn position(&self, key: Key) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_some_and(|(k, _)| k == key))
    }

    pub fn contains(&self, key: Key) -> bool {
        self.position(key).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys by rising slot.
    pub fn keys(&self) -> Vec<Key> {
        self.slots.iter().flatten().map(|&(key, _)| key).collect()
    }

    /// The key in a slot, for visits that erase on the way; `None` behind the last slot.
    pub fn slot(&self, at: usize) -> Option<Option<Key>> {
        self.slots.get(at).map(|slot| slot.map(|(key, _)| key))
    }

    pub fn insert(&mut self, key: Key) {
        if self.contains(key) {
            return;
        }
        while !self.place(key) {
            self.grow();
        }
    }

    /// Puts a new key where it belongs; `false` when the table is too small.
    fn place(&mut self, key: Key) -> bool {
        if self.slots.is_empty() || self.len + 1 > (1 << self.log2) / 2 {
            return false;
        }
        let before = self.slots.clone();
        let mut carried = (key, 0);
        let mut at = self.own_slot(key);
        loop {
            if carried.1 == self.longest_probe() {
                self.slots = before;
                return false;
            }
            match self.slots[at] {
                None => {
                    self.slots[at] = Some(carried);
                    self.len += 1;
                    return true;
                }
                // The one that is nearer to its own slot gives way.
                Some(other) if other.1 < carried.1 => {
                    self.slots[at] = Some(carried);
                    carried = other;
                }
                Some(_) => {}
            }
            at += 1;
            carried.1 += 1;
        }
    }

    fn grow(&mut self) {
        let keys = self.keys();
        self.log2 = if self.slots.is_empty() { 2 } else { self.log2 + 1 };
        self.slots = vec![None; (1 << self.log2) + self.longest_probe()];
        self.len = 0;
        for key in keys {
            self.insert(key);
        }
    }

    /// Erases a key; displaced entries behind it move back by one.
    pub fn erase(&mut self, key: Key) {
        let Some(mut at) = self.position(key) else { return };
        self.len -= 1;
        self.slots[at] = None;
        while let Some(Some((next, distance))) = self.slots.get(at + 1).copied() {
            if distance == 0 {
                break;
            }
            self.slots[at] = Some((next, distance - 1));
            self.slots[at + 1] = None;
            at += 1;
        }
    }

    /// Erases all keys; the slots stay.
    pub fn clear(&mut self) {
        self.slots.fill(None);
        self.len = 0;
    }
}
