//! A slab whose ids are never valid again after removal: index and generation in one number, never 0.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> u64 {
        match self.vacant.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.value = Some(value);
                id(index, slot.generation)
            }
            None => {
                let index = self.slots.len() as u32;
                self.slots.push(Slot { generation: 0, value: Some(value) });
                id(index, 0)
            }
        }
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&T> {
        let (index, generation) = split(id)?;
        let slot = self.slots.get(index as usize)?;
        if slot.generation == generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (index, generation) = split(id)?;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation == generation { slot.value.as_mut() } else { None }
    }

    pub fn remove(&mut self, id: u64) -> Option<T> {
        let (index, generation) = split(id)?;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(index);
        Some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((id(index as u32, slot.generation), slot.value.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(index, slot)| Some((id(index as u32, slot.generation), slot.value.as_mut()?)))
    }
}

fn id(index: u32, generation: u32) -> u64 {
    (u64::from(generation) << 32) | (u64::from(index) + 1)
}

#[inline]
fn split(id: u64) -> Option<(u32, u32)> {
    Some(((id as u32).checked_sub(1)?, (id >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_dead_once_removed_even_if_its_slot_is_used_again() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_ne!(first, second);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(0), None);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &'b')]);
    }
}
