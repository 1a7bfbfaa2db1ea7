//! `malloc` in the order of section 2.2 of the law.

use super::MIB;
use super::state::{DEFAULT, Failure, Filter, Hint, Id, Kind, Model, OomFacts, Segment, Use, Who};
use super::stats::What;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub requested: u64,
    pub rounded: u64,
    pub alloc_size: u64,
    pub stream: u64,
    pub pool: Id,
    pub small: bool,
    pub who: Who,
}

/// What `alloc_block` brings.
pub enum Fresh {
    Block(u64),
    /// `custom`: the pool's own allocator was asked and had none.
    NoMemory {
        custom: bool,
    },
    Rejected,
}

impl Model {
    pub fn malloc(&mut self, size: u64, stream: u64, who: Who) -> Result<u64, Failure> {
        if size >= 1 << 60 {
            return Err(Failure::TooLarge); // R2.1
        }
        if size == 0 {
            return Ok(0); // R2.3
        }
        if !self.in_capture(who) {
            self.process_events();
        }
        let request = self.request(size, stream, who);
        if request.rounded != size.div_ceil(512) * 512 {
            self.reach("R1.5 divided");
        }
        let custom = self.pool(request.pool).is_some_and(|pool| pool.custom.is_some());
        let expandable = self.conf.expandable && !custom;
        if let Some(block) = self.get_free_block(&request, expandable) {
            return Ok(self.hand_out(block, &request, expandable));
        }
        if self.limit.is_some() && self.conf.gc_threshold > 0.0 {
            self.collect_garbage();
        }
        let mut fresh = self.alloc_block(&request, expandable, false);
        self.exhausted |= !matches!(fresh, Fresh::Block(_));
        let mut custom_failed = false;
        if let Fresh::NoMemory { custom } = fresh {
            custom_failed |= custom;
            if request.pool == DEFAULT
                && let Some(block) = self.borrow_block(&request)?
            {
                self.reach("R2.27 lent");
                return Ok(self.hand_out(block, &request, false)); // R1.15
            }
            if self.release_available(&request) {
                fresh = self.alloc_block(&request, expandable, false);
                custom_failed |= matches!(fresh, Fresh::NoMemory { custom: true });
            }
            if !matches!(fresh, Fresh::Block(_)) && !self.in_capture(who) {
                self.release_cached(DEFAULT, who);
                fresh = self.alloc_block(&request, expandable, true);
                if let Fresh::Block(_) = fresh {
                    self.reach("R2.7 served after retry");
                }
            }
        }
        match fresh {
            Fresh::Block(block) => Ok(self.hand_out(block, &request, expandable)),
            Fresh::Rejected => Err(Failure::Rejected { requested: size }),
            Fresh::NoMemory { custom } => Err(self.out_of_memory(&request, custom_failed || custom)),
        }
    }

    pub fn request(&self, size: u64, stream: u64, who: Who) -> Request {
        let rounded = self.conf.round(size);
        Request {
            requested: size,
            rounded,
            alloc_size: self.conf.segment_size(rounded),
            stream,
            pool: self.route(stream, who),
            small: rounded <= MIB,
            who,
        }
    }

    /// Section 1.7. The block stays in the free set until it is handed out.
    fn get_free_block(&mut self, request: &Request, expandable_active: bool) -> Option<u64> {
        if self.limit.is_some() && self.conf.gc_threshold > 0.0 {
            *self.clock(request.pool, request.small) += 1;
        }
        let free = self.free_blocks(request.pool, request.small, request.stream);
        let mut at = free.iter().position(|&id| self.block(id).size >= request.rounded)?;
        if self.is_expandable(free[at]) {
            if expandable_active {
                // Only neighbours in the set are compared.
                while self.is_expandable(free[at])
                    && at + 1 < free.len()
                    && self.effective_size(free[at + 1]) < self.effective_size(free[at])
                {
                    at += 1;
                    self.reach("R1.23 a smaller growable block");
                }
            } else {
                self.reach("R1.24 expandable skipped");
                at += free[at..].iter().position(|&id| !self.is_expandable(id))?;
            }
        }
        // R1.25.
        let (size, max_split) = (self.block(free[at]).size, self.conf.max_split);
        if request.rounded < max_split && size >= max_split {
            self.reach("R1.25 oversize block refused");
            return None;
        }
        if request.rounded >= max_split && size >= request.rounded + self.conf.max_non_split_rounding {
            self.reach("R1.25 rounding refused");
            return None;
        }
        Some(free[at])
    }

    /// R1.23: what a block can grow to.
    fn effective_size(&self, id: u64) -> u64 {
        let unmapped = self.next(id).filter(|&next| self.block(next).used == Use::Unmapped);
        self.block(id).size + unmapped.map_or(0, |next| self.block(next).size)
    }

    /// Section 2.3.
    fn alloc_block(&mut self, request: &Request, expandable: bool, is_retry: bool) -> Fresh {
        if is_retry {
            self.stats.retries += 1;
        }
        let (held, size) = (self.held(), request.alloc_size);
        if self.limit.is_some_and(|limit| held + size > limit) {
            self.reach("R2.11 limit");
            return Fresh::NoMemory { custom: false };
        }
        if self.conf.throw_on_oom {
            let allowed = (self.conf.fraction * self.device.capacity as f64) as u64;
            if held + size > allowed {
                self.stats.rejections += 1;
                self.reach("R2.40 rejected");
                return Fresh::Rejected;
            }
        }
        if expandable {
            let Some(block) = self.alloc_expandable(request) else { return Fresh::NoMemory { custom: false } };
            self.pool_mut(request.pool).expect("a pool").driver_count += 1;
            return Fresh::Block(block);
        }
        let custom = self.pool(request.pool).expect("a pool").custom;
        let (addr, kind) = match custom {
            Some(source) => (self.sources[source].take(size), Kind::Custom),
            None => (self.device.malloc(size), Kind::Driver),
        };
        let Some(base) = addr else {
            if custom.is_some() {
                self.reach("R2.14 custom allocator empty");
            }
            return Fresh::NoMemory { custom: custom.is_some() };
        };
        // R2.17.
        self.pool_mut(request.pool).expect("a pool").driver_count += 1;
        let counter = self.register();
        let Request { stream, pool, small, .. } = *request;
        let block = self.add_segment(Segment { base, size, stream, pool, small, kind, counter }, Use::Free);
        self.stats.add(What::Segment, small, 1);
        self.reserved(pool, small, size as i64);
        if size >= self.conf.max_split {
            self.stats.add(What::OversizeSegments, small, 1);
        }
        self.stats.device_allocs += 1;
        self.tell("segment_alloc", base, size);
        Fresh::Block(block)
    }

    /// Section 2.6: a cached block of a pool that lends.
    fn borrow_block(&mut self, request: &Request) -> Result<Option<u64>, Failure> {
        for key in self.lenders.keys() {
            let id = key.1;
            self.begin_allocate_to_pool(id, Filter::Thread(request.who.thread))?; // R2.30
            let block = self.get_free_block(&Request { pool: id, ..*request }, false);
            self.end_allocate_to_pool(id)?;
            self.release_pool(id)?;
            if block.is_some() {
                return Ok(block);
            }
        }
        Ok(None)
    }

    /// Section 1.5.
    fn should_split(&self, block: u64, rounded: u64, expandable_active: bool) -> bool {
        let segment = self.segment_of(block);
        let remaining = self.block(block).size - rounded;
        if self.pool(segment.pool).is_some_and(|pool| pool.no_split) {
            false
        } else if segment.small || expandable_active {
            remaining >= 512
        } else {
            rounded < self.conf.max_split && remaining > MIB
        }
    }

    fn hand_out(&mut self, block: u64, request: &Request, expandable_active: bool) -> u64 {
        let split = self.should_split(block, request.rounded, expandable_active);
        let no_split = self.pool(self.segment_of(block).pool).is_some_and(|pool| pool.no_split);
        if no_split && self.block(block).size > request.rounded + MIB {
            self.reach("R1.12 whole by no_split");
        }
        let live = self.carve(block, request.rounded, request.requested, split);
        self.block(live).addr
    }

    /// Section 2.10: hands the front of a free block out, or all of it.
    pub fn carve(&mut self, block: u64, rounded: u64, requested: u64, split: bool) -> u64 {
        let was_split = self.is_split(block);
        let expandable = self.is_expandable(block);
        let Segment { pool, small, .. } = *self.segment_of(block);
        let live = if split {
            let clock = *self.clock(pool, small);
            let tail = self.block_mut(block);
            let (segment, addr) = (tail.segment, tail.addr);
            tail.addr += rounded;
            tail.size -= rounded;
            tail.born = clock;
            let rest = tail.size as i64;
            if !expandable {
                if was_split {
                    self.stats.add(What::InactiveSplitBytes, small, -(rounded as i64));
                } else {
                    self.stats.add(What::InactiveSplitBytes, small, rest);
                    self.stats.add(What::InactiveSplit, small, 1);
                }
            }
            self.add_block(segment, addr, rounded, Use::Live)
        } else {
            if was_split && !expandable {
                self.stats.add(What::InactiveSplitBytes, small, -(self.block(block).size as i64));
                self.stats.add(What::InactiveSplit, small, -1);
            }
            block
        };
        let handed = self.block_mut(live);
        handed.used = Use::Live;
        handed.requested = requested;
        handed.captured.clear();
        handed.streams = Default::default();
        let (addr, size) = (handed.addr, handed.size);
        self.tell("alloc", addr, requested);
        self.stats.add(What::Allocation, small, 1);
        self.stats.add(What::AllocatedBytes, small, size as i64);
        self.stats.add(What::Active, small, 1);
        self.stats.add(What::ActiveBytes, small, size as i64);
        self.stats.add(What::RequestedBytes, small, requested as i64);
        if size >= self.conf.max_split {
            self.stats.add(What::OversizeAllocations, small, 1);
        }
        live
    }

    /// Section 2.9.
    fn out_of_memory(&mut self, request: &Request, custom_failed: bool) -> Failure {
        let device_free = self.device.free_bytes();
        self.tell("oom", device_free, request.rounded);
        self.stats.ooms += 1;
        self.reach("R2.43 out of memory");
        let cached = self.blocks.iter().filter(|b| b.used == Use::Free && self.segment_of(b.id).pool != DEFAULT);
        let cached_in_private_pools = cached.map(|b| b.size).sum();
        let total = self.device.capacity;
        let reserve = self.conf.reserve_bytes(total);
        let hint = if !self.conf.expandable {
            Hint::TryExpandable
        } else if request.alloc_size <= total && reserve < request.alloc_size {
            Hint::ReserveTooSmall(reserve)
        } else {
            Hint::AddressSpace
        };
        Failure::Oom(OomFacts {
            requested: request.requested,
            rounded: request.rounded,
            alloc_size: request.alloc_size,
            device_free,
            limit: self.limit,
            allocated: self.stats.metrics[What::AllocatedBytes as usize][0].current as u64,
            reserved: self.held(),
            cached_in_private_pools,
            hint,
            custom_failed,
        })
    }
}
