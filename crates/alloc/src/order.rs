//! The order in which PyTorch happens to visit four of its hash tables (R3.16).
//!
//! Event queues by stream, the stream set of a block, the freeable private pools and the `use_on_oom` pools are visited
//! in the slot order of one open-addressing table with displacement ("robin hood") hashing. That order decides what is
//! freed first, so the table is reproduced here, slot by slot.

use millpond_driver::Stream;

use crate::private::PoolId;

/// A key of such a table: the number that PyTorch hashes.
pub(crate) trait TorchKey: Copy + Eq {
    /// The number.
    fn number(self) -> u64;
}

/// A stream, and the number by which PyTorch knows it. `World::named` makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedStream {
    pub stream: Stream,
    /// PyTorch's stream id.
    pub id: u64,
}

impl NamedStream {
    /// The stream that a recording calls `stream.raw`: the k-th of PyTorch's pool streams has the id 32·(k−1)+3.
    pub fn of_recording(stream: Stream) -> Self {
        let id = if stream.raw == 0 { 0 } else { 32u64.wrapping_mul(stream.raw - 1).wrapping_add(3) };
        NamedStream { stream, id }
    }
}

impl TorchKey for NamedStream {
    fn number(self) -> u64 {
        (1 << 56) | (u64::from(self.stream.device.0) << 48) | (self.id & ((1 << 48) - 1))
    }
}

impl TorchKey for PoolId {
    fn number(self) -> u64 {
        if self.0 != 0 { self.0 } else { self.1 }
    }
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    /// How far the entry lies behind the slot its key names.
    distance: u32,
    key: K,
    value: V,
}

/// A map that is visited in PyTorch's order.
#[derive(Clone, Debug)]
pub(crate) struct TorchMap<K, V> {
    /// `slots + max_probe` places: an entry never wraps around.
    places: Vec<Option<Slot<K, V>>>,
    slots: usize,
    len: usize,
}

impl<K, V> Default for TorchMap<K, V> {
    fn default() -> Self {
        TorchMap { places: Vec::new(), slots: 0, len: 0 }
    }
}

/// A set that is visited in PyTorch's order.
pub(crate) type TorchSet<K> = TorchMap<K, ()>;

impl<K: TorchKey, V> TorchMap<K, V> {
    const FIRST_SLOTS: usize = 4;

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    fn max_probe(slots: usize) -> u32 {
        slots.ilog2().max(4)
    }

    fn home(&self, key: K) -> usize {
        (11_400_714_819_323_198_485_u64.wrapping_mul(key.number()) >> (64 - self.slots.ilog2())) as usize
    }

    fn place_of(&self, key: K) -> Option<usize> {
        if self.slots == 0 {
            return None;
        }
        let home = self.home(key);
        (0u32..)
            .zip(home..self.places.len())
            .take_while(|&(distance, place)| self.places[place].as_ref().is_some_and(|slot| slot.distance >= distance))
            .find(|&(_, place)| self.places[place].as_ref().is_some_and(|slot| slot.key == key))
            .map(|(_, place)| place)
    }

    #[cfg(test)]
    fn contains(&self, key: K) -> bool {
        self.place_of(key).is_some()
    }

    /// Puts `value` in unless the key is there; returns the value that is in the map.
    pub fn entry(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let place = match self.place_of(key) {
            Some(place) => place,
            None => self.insert_new(key, value()),
        };
        match &mut self.places[place] {
            Some(slot) => &mut slot.value,
            None => unreachable!("the place of a key holds it"),
        }
    }

    /// Inserts a key that is not there; returns its place.
    fn insert_new(&mut self, key: K, value: V) -> usize {
        if self.slots == 0 || (self.len + 1) * 2 > self.slots {
            self.grow();
        }
        let mut arriving = Slot { distance: 0, key, value };
        loop {
            match self.try_place(arriving) {
                Ok(()) => break,
                Err(displaced) => {
                    // A probe grew too long: a larger table, and the entry that found no place goes first.
                    arriving = displaced;
                    arriving.distance = 0;
                    self.grow();
                }
            }
        }
        self.len += 1;
        match self.place_of(key) {
            Some(place) => place,
            None => unreachable!("the key was just placed"),
        }
    }

    /// Places an entry, displacing those nearer to home; gives back the one that found no place within the probe bound.
    fn try_place(&mut self, mut arriving: Slot<K, V>) -> Result<(), Slot<K, V>> {
        let bound = Self::max_probe(self.slots);
        let mut place = self.home(arriving.key);
        loop {
            if arriving.distance == bound {
                return Err(arriving);
            }
            match &mut self.places[place] {
                empty @ None => {
                    *empty = Some(arriving);
                    return Ok(());
                }
                Some(slot) if slot.distance < arriving.distance => std::mem::swap(slot, &mut arriving),
                Some(_) => {}
            }
            arriving.distance += 1;
            place += 1;
        }
    }

    fn grow(&mut self) {
        let slots = (self.slots * 2).max(Self::FIRST_SLOTS);
        let places = slots + Self::max_probe(slots) as usize;
        let old = std::mem::replace(&mut self.places, std::iter::repeat_with(|| None).take(places).collect());
        self.slots = slots;
        self.len = 0;
        for slot in old.into_iter().flatten() {
            self.insert_new(slot.key, slot.value);
        }
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        self.place_of(key).map(|place| self.remove_at(place).1)
    }

    /// Removes the entry at a place; displaced entries behind it move back by one (so the next visit is to the same place).
    pub fn remove_at(&mut self, mut place: usize) -> (K, V) {
        let slot = match self.places[place].take() {
            Some(slot) => slot,
            None => unreachable!("only occupied places are removed"),
        };
        self.len -= 1;
        while let Some(next) = self.places.get_mut(place + 1) {
            match next.take_if(|slot| slot.distance > 0) {
                Some(mut moved) => {
                    moved.distance -= 1;
                    self.places[place] = Some(moved);
                    place += 1;
                }
                None => break,
            }
        }
        (slot.key, slot.value)
    }

    /// Empties the map and keeps its slots.
    pub fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| *place = None);
        self.len = 0;
    }

    /// The first occupied place at or after `from`.
    pub fn next_place(&self, from: usize) -> Option<usize> {
        (from..self.places.len()).find(|&place| self.places[place].is_some())
    }

    /// The entry at an occupied place.
    pub fn at(&mut self, place: usize) -> Option<(K, &mut V)> {
        self.places.get_mut(place)?.as_mut().map(|slot| (slot.key, &mut slot.value))
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.places.iter().flatten().map(|slot| (slot.key, &slot.value))
    }

    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.places.iter().flatten().map(|slot| slot.key)
    }
}

impl<K: TorchKey> TorchSet<K> {
    /// Adds a key.
    pub fn insert(&mut self, key: K) {
        self.entry(key, || ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_driver::Device;

    fn homes<K: TorchKey>(keys: &[K], slots: usize) -> Vec<usize> {
        let map = TorchMap::<K, ()> { places: Vec::new(), slots, len: 0 };
        keys.iter().map(|&key| map.home(key)).collect()
    }

    #[test]
    fn r3_16_slots_of_streams_and_pools() {
        let streams: Vec<_> = (0..5).map(|raw| NamedStream::of_recording(Stream::new(Device(0), raw))).collect();
        assert_eq!(homes(&streams, 4), [0, 3, 2, 1, 1]);
        assert_eq!(homes(&streams, 8), [0, 7, 5, 3, 2]);
        assert_eq!(homes(&streams, 16), [1, 14, 11, 7, 4]);
        let pools: Vec<PoolId> = (1..=8).map(|k| PoolId(0, k)).collect();
        assert_eq!(homes(&pools, 4), [2, 0, 3, 1, 0, 2, 1, 3]);
        assert_eq!(homes(&pools, 8), [4, 1, 6, 3, 0, 5, 2, 7]);
        assert_eq!(homes(&pools, 16), [9, 3, 13, 7, 1, 11, 5, 15]);
        assert_eq!(homes(&[PoolId(3, 0)], 4), homes(&[PoolId(0, 3)], 4));
    }

    #[test]
    fn r3_16_doubles_when_more_than_half_full() {
        let mut set = TorchSet::default();
        let slots: Vec<usize> = (0..5)
            .map(|raw| {
                set.insert(NamedStream::of_recording(Stream::new(Device(0), raw)));
                set.slots
            })
            .collect();
        assert_eq!(slots, [4, 4, 8, 8, 16]);
        assert_eq!(
            set.keys().map(|named| named.stream.raw).collect::<Vec<_>>(),
            [0, 4, 3, 2, 1],
            "slots 1, 4, 7, 11, 14 of 16"
        );
    }

    #[test]
    fn it_is_a_map_whatever_the_order() {
        let mut map = TorchMap::default();
        let mut model = std::collections::BTreeMap::new();
        let mut state = 7u64;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = PoolId(0, (state >> 33) % 97);
            if state & 4 == 0 {
                assert_eq!(map.remove(key), model.remove(&key.1));
            } else {
                assert_eq!(*map.entry(key, || step), *model.entry(key.1).or_insert(step));
            }
            assert_eq!(map.len(), model.len());
            assert_eq!(map.contains(key), model.contains_key(&key.1));
        }
        let mut keys: Vec<u64> = map.keys().map(|key| key.1).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(model.into_keys()));
    }
}
