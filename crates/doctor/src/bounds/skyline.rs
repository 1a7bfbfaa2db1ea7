//! Heights over time.

/// One height for each birth: between two births nothing rises. A tree of maxima, so that a range costs its logarithm.
pub struct Skyline {
    leaves: usize,
    highest: Vec<u64>,
    /// A height that holds for the whole range of a node and that its children do not know yet.
    pending: Vec<u64>,
}

impl Skyline {
    /// Flat ground.
    pub fn new(births: usize) -> Self {
        let leaves = births.next_power_of_two().max(1);
        Skyline { leaves, highest: vec![0; 2 * leaves], pending: vec![0; 2 * leaves] }
    }

    /// The highest of `[from, to)`.
    pub fn highest(&self, from: usize, to: usize) -> u64 {
        if from >= to { 0 } else { self.highest_below(1, 0, self.leaves, from, to) }
    }

    fn highest_below(&self, node: usize, start: usize, end: usize, from: usize, to: usize) -> u64 {
        if to <= start || end <= from {
            return 0;
        }
        if from <= start && end <= to {
            return self.highest[node];
        }
        if self.pending[node] > 0 {
            return self.pending[node];
        }
        let middle = start.midpoint(end);
        let left = self.highest_below(2 * node, start, middle, from, to);
        left.max(self.highest_below(2 * node + 1, middle, end, from, to))
    }

    /// Sets all of `[from, to)`, none of which is higher, to `height`.
    pub fn raise(&mut self, from: usize, to: usize, height: u64) {
        if from < to {
            self.raise_below(1, 0, self.leaves, from, to, height);
        }
    }

    fn raise_below(&mut self, node: usize, start: usize, end: usize, from: usize, to: usize, height: u64) {
        if to <= start || end <= from {
            return;
        }
        if from <= start && end <= to {
            self.highest[node] = height;
            self.pending[node] = height;
            return;
        }
        let middle = start.midpoint(end);
        let pending = std::mem::take(&mut self.pending[node]);
        if pending > 0 {
            for child in [2 * node, 2 * node + 1] {
                self.highest[child] = pending;
                self.pending[child] = pending;
            }
        }
        self.raise_below(2 * node, start, middle, from, to, height);
        self.raise_below(2 * node + 1, middle, end, from, to, height);
        self.highest[node] = self.highest[2 * node].max(self.highest[2 * node + 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_list_of_heights_would_be() {
        let (mut skyline, mut heights, mut seed) = (Skyline::new(13), [0u64; 13], 7u64);
        for _ in 0..500 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (a, b) = ((seed >> 33) as usize % 14, (seed >> 48) as usize % 14);
            let (from, to) = (a.min(b), a.max(b));
            let highest = heights[from..to].iter().copied().max().unwrap_or(0);
            assert_eq!(skyline.highest(from, to), highest);
            skyline.raise(from, to, highest + 1);
            heights[from..to].fill(highest + 1);
        }
    }
}
