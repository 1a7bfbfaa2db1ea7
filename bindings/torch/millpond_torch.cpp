// PyTorch's CUDAAllocator interface (torch 2.15) over Millpond's C interface: the full grade.
//
// Built against the headers of the installed torch and loaded before CUDA is initialised; see README.md. The allocator object is never
// destroyed, since tensors may outlive static destructors.

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <mutex>

#include "millpond.h"

namespace {

using namespace c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::AnnotationEntry;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;
using Context = std::shared_ptr<c10::GatheredContext>;

// Raises what the calling thread's last error was, with PyTorch's exception type.
[[noreturn]] void raise(mp_status status) {
  TORCH_CHECK_WITH(OutOfMemoryError, !mp_is_out_of_memory(status), mp_error_text());
  TORCH_CHECK(false, mp_error_text());
}

// An exception of an observer waits here until the allocator has returned: none may cross it.
thread_local std::exception_ptr thrown;

void check(mp_status status) {
  if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  if (status != MP_OK) raise(status);
}

mp_pool_id id_of(MempoolId_t id) { return {id.first, id.second}; }
uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
void* pointer(uint64_t addr) { return reinterpret_cast<void*>(addr); }

struct Text {
  mp_text* text = nullptr;
  std::string plain;
  explicit Text(const std::string& from) : plain(from) { check(mp_text_create(from.c_str(), &text)); }
  Text(const Text&) = delete;
  ~Text() { mp_text_destroy(text); }
};
thread_local std::unique_ptr<Text> metadata;
thread_local std::vector<std::unique_ptr<Text>> regions;

std::atomic<CreateContextFn> recorder{nullptr};

// A stack's token is a shared pointer of its own on the heap.
uint64_t capture_stack(void*) {
  try {
    CreateContextFn record = recorder.load();
    Context context = record ? record() : nullptr;
    return context ? number(new Context(std::move(context))) : 0;
  } catch (...) {
    return 0;
  }
}
void release_stack(void*, uint64_t token) { delete static_cast<Context*>(pointer(token)); }
Context context_of(uint64_t token) { return token ? *static_cast<Context*>(pointer(token)) : nullptr; }

c10::CachingAllocator::Stat stat_of(const mp_stat& from) {
  c10::CachingAllocator::Stat stat;
  stat.current = from.current;
  stat.peak = from.peak;
  stat.allocated = from.allocated;
  stat.freed = from.freed;
  return stat;
}

struct Checkpoint : AllocatorState {
  mp_checkpoint* saved = nullptr;
  ~Checkpoint() override { mp_checkpoint_destroy(saved); }
};

class Millpond;
Millpond& millpond();
void delete_block(void* block);

class Millpond final : public CUDAAllocator {
 public:
  void init(int count) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!devices_.empty()) return;
    // PyTorch reads the environment's settings first, so that what it refuses it refuses in its own words.
    (void)CUDAAllocatorConfig::release_lock_on_cudamalloc();
    check(mp_process_world(&world_));
    auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    clock_ = std::chrono::duration_cast<std::chrono::microseconds>(unix_time).count();
    mp_stack_source stacks{nullptr, capture_stack, release_stack, nullptr};
    check(mp_set_stack_source(world_, &stacks));
    std::vector<mp_allocator*> devices(count);
    for (int device = 0; device < count; ++device) {
      check(mp_process_allocator(device, &devices[device]));
      check(mp_attach_free_memory_callback(devices[device], free_memory, nullptr));
    }
    follow_settings();
    devices_ = std::move(devices);
  }

  bool initialized() override { return !devices_.empty(); }
  std::string name() override { return "millpond"; }

  // ── Blocks ──

  DataPtr allocate(size_t size) override {
    DeviceIndex device = c10::cuda::current_device();
    void* block = take(device, size, c10::cuda::getCurrentCUDAStream(device).stream());
    return {block, block, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void* raw_alloc(size_t size) override {
    DeviceIndex device = c10::cuda::current_device();
    return take(device, size, c10::cuda::getCurrentCUDAStream(device).stream());
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return take(c10::cuda::current_device(), size, stream);
  }
  DataPtr allocateWithAddress(size_t size, void* addr) override {
    DeviceIndex device = c10::cuda::current_device();
    auto caller = by(device);
    check(mp_alloc_at(on(device), number(addr), size, caller.stream, &caller));
    return {addr, addr, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
  }
  void raw_delete(void* block) override {
    if (!block) return;
    if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
      (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, number(block));
    }
    // Mostly the block is the current device's; else the devices are asked in turn.
    DeviceIndex current = c10::cuda::current_device();
    mp_status status = give(current, block);
    for (DeviceIndex device = 0; status == MP_UNKNOWN_ADDRESS && device < count(); ++device) {
      if (device != current) status = give(device, block);
    }
    TORCH_CHECK(status != MP_UNKNOWN_ADDRESS, "invalid device pointer: ", block);
    check(status);
  }
  void recordStream(const DataPtr& block, c10::cuda::CUDAStream stream) override {
    if (!block.get() || block.get_deleter() != &delete_block) return;
    DeviceIndex device = block.device().index();
    auto caller = by(device);
    check(mp_name_stream(on(device), number(stream.stream()), static_cast<uint64_t>(stream.id())));
    check(mp_record_stream(on(device), number(block.get()), number(stream.stream()), &caller, nullptr));
  }
  void copy_data(void* to, const void* from, size_t size) const override {
    C10_CUDA_CHECK(cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
  }

  // ── Limits, caches, statistics ──

  double getMemoryFraction(DeviceIndex device) override {
    double fraction = 1;
    check(mp_memory_fraction(on(device), &fraction));
    return fraction;
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    check(mp_set_memory_fraction(on(device), fraction));
  }
  void enable(bool value) override {
    for (auto* device : devices_) check(mp_enable_caching(device, value));
  }
  bool isEnabled() const override {
    bool on = true;
    if (!devices_.empty()) check(mp_is_caching(devices_[0], &on));
    return on;
  }
  void emptyCache(MempoolId_t id) override {
    for (DeviceIndex device = 0; device < count(); ++device) {
      auto caller = by(device);
      check(mp_empty_pool_cache(on(device), id_of(id), &caller));
    }
  }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    uint64_t size = 0;
    check(mp_largest_block(on(device), *largest, &size));
    *largest = size;
  }
  void* getBaseAllocation(void* block, size_t* size) override {
    uint64_t base = 0, bytes = 0;
    check(mp_base_allocation(on(c10::cuda::current_device()), number(block), &base, &bytes));
    if (size) *size = bytes;
    return pointer(base);
  }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    size_t count = 0;
    check(mp_expandable_segments(on(device), nullptr, 0, &count));
    std::vector<mp_expandable_segment> found(count);
    check(mp_expandable_segments(on(device), found.data(), found.size(), &count));
    std::vector<StreamSegmentSize> sizes;
    for (size_t i = 0; i < std::min(count, found.size()); ++i) {
      sizes.emplace_back(static_cast<cudaStream_t>(pointer(found[i].stream)), found[i].is_small, found[i].mapped);
    }
    return sizes;
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    mp_stats from;
    check(mp_stats_get(on(device), &from));
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto fill = [&](c10::CachingAllocator::StatArray& to, int metric) {
      for (size_t column = 0; column < 3; ++column) to[column] = stat_of(from.metrics[metric][column]);
    };
    fill(stats.allocation, MP_METRIC_ALLOCATION);
    fill(stats.segment, MP_METRIC_SEGMENT);
    fill(stats.active, MP_METRIC_ACTIVE);
    fill(stats.inactive_split, MP_METRIC_INACTIVE_SPLIT);
    fill(stats.allocated_bytes, MP_METRIC_ALLOCATED_BYTES);
    fill(stats.reserved_bytes, MP_METRIC_RESERVED_BYTES);
    fill(stats.active_bytes, MP_METRIC_ACTIVE_BYTES);
    fill(stats.inactive_split_bytes, MP_METRIC_INACTIVE_SPLIT_BYTES);
    fill(stats.requested_bytes, MP_METRIC_REQUESTED_BYTES);
    stats.oversize_allocations = stat_of(from.metrics[MP_METRIC_OVERSIZE_ALLOCATIONS][0]);
    stats.oversize_segments = stat_of(from.metrics[MP_METRIC_OVERSIZE_SEGMENTS][0]);
    stats.num_alloc_retries = from.num_alloc_retries;
    stats.num_ooms = from.num_ooms;
    stats.num_sync_all_streams = from.num_sync_all_streams;
    stats.num_device_alloc = from.num_device_alloc;
    stats.num_device_free = from.num_device_free;
    stats.num_oom_rejections = from.num_oom_rejections;
    stats.max_split_size = from.max_split_size;
    size_t count = 0;
    check(mp_stats_private_pools(on(device), nullptr, 0, &count));
    std::vector<mp_pool_stat> pools(count);
    check(mp_stats_private_pools(on(device), pools.data(), pools.size(), &count));
    for (size_t i = 0; i < std::min(count, pools.size()); ++i) {
      auto& to = stats.reserved_bytes_by_private_pools[{pools[i].pool.first, pools[i].pool.second}];
      for (size_t column = 0; column < 3; ++column) to[column] = stat_of(pools[i].reserved[column]);
    }
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex device) override { check(mp_reset_accumulated_stats(on(device))); }
  void resetPeakStats(DeviceIndex device) override { check(mp_reset_peak_stats(on(device))); }

  // ── Memory pools and captures ──

  void beginAllocateToPool(DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter) override {
    using Filter = std::function<bool(cudaStream_t)>;
    auto accepts = [](void* user, uint64_t stream) {
      return (*static_cast<Filter*>(user))(static_cast<cudaStream_t>(pointer(stream)));
    };
    auto drop = [](void* user) { delete static_cast<Filter*>(user); };
    mp_filter asked{MP_FILTER_FUNCTION, 0, new Filter(std::move(filter)), accepts, drop};
    check(mp_pool_begin(on(device), id_of(id), &asked));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override { check(mp_pool_end(on(device), id_of(id))); }
  void releasePool(DeviceIndex device, MempoolId_t id) override { check(mp_pool_release(on(device), id_of(id))); }
  void markCaptureBegin(DeviceIndex device) override { check(mp_mark_capture_begin(on(device))); }
  void markCaptureEnd(DeviceIndex device) override { check(mp_mark_capture_end(on(device))); }
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override {
    uint64_t uses = 0;
    check(mp_pool_use_count(on(device), id_of(id), &uses));
    return static_cast<int>(uses);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> custom) override {
    if (!custom) return check(mp_pool_create_or_incref(on(device), id_of(id), nullptr));
    struct Source {
      std::shared_ptr<CUDAAllocator> allocator;
      DeviceIndex device;
    };
    mp_custom_allocator source{
        new Source{std::move(custom), device},
        [](void* user, uint64_t size, uint64_t stream) -> uint64_t {
          auto* source = static_cast<Source*>(user);
          try {
            c10::cuda::CUDAGuard guard(source->device);
            return number(source->allocator->raw_alloc_with_stream(size, static_cast<cudaStream_t>(pointer(stream))));
          } catch (...) {
            return 0;
          }
        },
        [](void* user, uint64_t addr, uint64_t, uint64_t) {
          try {
            static_cast<Source*>(user)->allocator->raw_delete(pointer(addr));
          } catch (...) {
            thrown = std::current_exception();
          }
        },
        [](void* user) { delete static_cast<Source*>(user); }};
    check(mp_pool_create_or_incref(on(device), id_of(id), &source));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool lends) override {
    check(mp_pool_set_use_on_oom(on(device), id_of(id), lends));
  }
  void setNoSplit(DeviceIndex device, MempoolId_t id) override { check(mp_pool_set_no_split(on(device), id_of(id))); }
  bool checkPoolLiveAllocations(
      DeviceIndex device, MempoolId_t id, const std::unordered_set<void*>& expected) override {
    std::vector<uint64_t> addrs;
    for (void* block : expected) addrs.push_back(number(block));
    bool same = false;
    check(mp_pool_has_exactly(on(device), id_of(id), addrs.data(), addrs.size(), &same));
    return same;
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    auto state = std::make_shared<Checkpoint>();
    auto caller = by(device);
    check(mp_checkpoint_create(on(device), id_of(id), &caller, &state->saved));
    return state;
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) override {
    auto caller = by(device);
    mp_restored* restored = nullptr;
    check(mp_checkpoint_restore(on(device), static_cast<Checkpoint&>(*state).saved, &caller, &restored));
    CheckpointDelta delta;
    size_t count = 0;
    const uint64_t* addrs = mp_restored_freed(restored, &count);
    for (size_t i = 0; i < count; ++i) delta.ptrs_freed.push_back(pointer(addrs[i]));
    addrs = mp_restored_live(restored, &count);
    for (size_t i = 0; i < count; ++i) {
      void* block = pointer(addrs[i]);
      delta.dataptrs_allocd.emplace_back(block, block, &delete_block, c10::Device(c10::DeviceType::CUDA, device));
    }
    mp_restored_destroy(restored);
    return delta;
  }

  // ── History ──

  void recordHistory(bool enabled, CreateContextFn how, size_t most, RecordContext when, bool clear,
                     const std::vector<std::string>& skip) override {
    recorder.store(enabled ? how : nullptr);
    std::vector<const char*> names;
    for (const auto& name : skip) names.push_back(name.c_str());
    mp_history_options options{static_cast<uint32_t>(when), most, clear, true, names.data(), names.size()};
    for (auto* device : devices_) check(mp_record_history(device, enabled ? &options : nullptr));
  }
  bool isHistoryEnabled() override { return !devices_.empty() && mp_is_history_enabled(devices_[0]); }
  Context getContextForPointer(const void* block) override {
    for (auto* device : devices_) {
      if (uint64_t token = mp_allocation_stack(device, number(block))) return context_of(token);
    }
    return nullptr;
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    if (!isHistoryEnabled()) return;
    AnnotationEntry entry(c10::cuda::current_device(), 0);
    auto now = std::chrono::system_clock::now().time_since_epoch();
    entry.time_.t_ = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    for (const auto& [key, value] : pairs) entry.recordUserMetadata(key, value);
    std::lock_guard<std::mutex> lock(mutex_);
    annotations_.push_back(std::move(entry));
  }
  void pushCompileContext(std::string& region) override { regions.push_back(std::make_unique<Text>(region)); }
  void popCompileContext() override {
    if (!regions.empty()) regions.pop_back();
  }
  bool supportsUserMetadata() override { return true; }
  void setUserMetadata(const std::string& text) override { metadata = std::make_unique<Text>(text); }
  std::string getUserMetadata() override { return metadata ? metadata->plain : ""; }
  void annotateMemory(const void* block, const std::string& text) override {
    for (DeviceIndex device = 0; device < count(); ++device) {
      auto caller = by(device);
      mp_status status = mp_annotate(on(device), number(block), text.c_str(), &caller);
      if (status != MP_UNKNOWN_ADDRESS) return check(status);
    }
    TORCH_CHECK(false, "annotateMemory: no live allocation found at pointer ", block);
  }
  SnapshotInfo snapshot(MempoolId_t id, bool traces) override;
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    auto tell = [](void* user, const mp_oom* oom) {
      try {
        size_t limit = oom->limit == UINT64_MAX ? oom->device_total : oom->limit;
        (*static_cast<OutOfMemoryObserver*>(user))(oom->device, oom->alloc_size, limit, oom->device_free);
      } catch (...) {
        thrown = std::current_exception();
      }
    };
    auto* kept = new OutOfMemoryObserver(std::move(observer));
    for (auto* device : devices_) check(mp_attach_oom_observer(device, tell, kept));
  }
  void attachOomRejectionObserver(OomRejectionObserver observer) override {
    auto tell = [](void* user, const mp_oom* oom) {
      try {
        (*static_cast<OomRejectionObserver*>(user))(oom->device, oom->requested, oom->allocated, oom->device_total);
      } catch (...) {
        // As in PyTorch, what a rejection's observer throws is lost.
      }
    };
    auto* kept = new OomRejectionObserver(std::move(observer));
    for (auto* device : devices_) check(mp_attach_rejection_observer(device, tell, kept));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    auto* kept = new AllocatorTraceTracker(std::move(tracker));
    auto tell = [](void* user, const mp_event* events, size_t count) {
      try {
        for (size_t i = 0; i < count; ++i) {
          if (events[i].action <= MP_ACTION_ANNOTATE) (*static_cast<AllocatorTraceTracker*>(user))(entry(events[i]));
        }
      } catch (...) {
        thrown = std::current_exception();
      }
    };
    for (auto* device : devices_) check(mp_attach_observer(device, tell, kept));
  }

  // ── Peers and other processes ──

  void enablePeerAccess(DeviceIndex user, DeviceIndex owner) override {
    check(mp_enable_peer_access(on(owner), user));
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream,
                          bool direct) override {
    // The peer form works for every kind of memory.
    if (direct || to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
  }
  ShareableHandle shareIpcHandle(void*) override {
    TORCH_CHECK(false, "Millpond does not share memory of tensors between processes yet");
  }
  std::shared_ptr<void> getIpcDevPtr(std::string) override {
    TORCH_CHECK(false, "Millpond does not share memory of tensors between processes yet");
  }

 private:
  DeviceIndex count() const { return static_cast<DeviceIndex>(devices_.size()); }
  mp_allocator* on(DeviceIndex device) const {
    TORCH_CHECK(device >= 0 && device < count(), "Millpond has no allocator for device ", static_cast<int>(device));
    return devices_[device];
  }
  mp_caller by(DeviceIndex device) const {
    return {number(c10::cuda::getCurrentCUDAStream(device).stream()), metadata ? metadata->text : nullptr,
            regions.empty() ? nullptr : regions.back()->text};
  }
  void* take(DeviceIndex device, size_t size, cudaStream_t stream) {
    auto caller = by(device);
    uint64_t addr = 0;
    check(mp_alloc(on(device), size, number(stream), &caller, &addr));
    if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, addr);
    }
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) tell_profiler(device, pointer(addr), size);
    return pointer(addr);
  }
  mp_status give(DeviceIndex device, void* block) {
    auto caller = by(device);
    uint64_t requested = 0;
    bool profiled = c10::memoryProfilingEnabled();
    if (C10_UNLIKELY(profiled)) mp_size_of(on(device), number(block), &requested, nullptr);
    mp_status status = mp_free(on(device), number(block), &caller);
    if (C10_UNLIKELY(profiled) && status == MP_OK) tell_profiler(device, block, -static_cast<int64_t>(requested));
    return status;
  }
  void tell_profiler(DeviceIndex device, void* block, int64_t size) {
    mp_stats stats;
    check(mp_stats_get(on(device), &stats));
    c10::reportMemoryUsageToProfiler(block, size, stats.metrics[MP_METRIC_ALLOCATED_BYTES][0].current,
                                     stats.metrics[MP_METRIC_RESERVED_BYTES][0].current,
                                     c10::Device(c10::DeviceType::CUDA, device));
  }
  // Settings changed at run time go to both: PyTorch's own object, which its other parts read, and Millpond.
  void follow_settings() {
    auto& hook = c10::CachingAllocator::AcceleratorAllocatorConfig::getConfigParserHook();
    hook = [before = hook, world = world_](const std::string& text) {
      mp_status status = mp_configure(world, text.c_str(), true, nullptr);
      if (before) before(text);
      check(status);
    };
  }
  static bool free_memory(void*) {
    bool freed = false;
    try {
      for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
        freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    return freed;
  }
  static TraceEntry entry(const mp_event& event);

  std::mutex mutex_;
  const mp_world* world_ = nullptr;
  std::vector<mp_allocator*> devices_;
  std::vector<AnnotationEntry> annotations_;
  // The driver's clock counts from the start of the process; PyTorch's from 1970.
  int64_t clock_ = 0;
};

TraceEntry Millpond::entry(const mp_event& event) {
  TraceEntry entry(
      static_cast<TraceEntry::Action>(0), static_cast<DeviceIndex>(event.device), event.addr, event.size,
      pointer(event.stream), {event.pool.first, event.pool.second}, 0, context_of(event.stack),
      event.compile_context ? event.compile_context : "N/A", event.metadata ? event.metadata : "");
  using A = TraceEntry::Action;
  // In the order of MP_ACTION_….
  constexpr A actions[] = {A::ALLOC,       A::FREE_REQUESTED, A::FREE_COMPLETED, A::SEGMENT_ALLOC, A::SEGMENT_FREE,
                           A::SEGMENT_MAP, A::SEGMENT_UNMAP,  A::OOM,            A::SNAPSHOT,      A::ANNOTATE};
  entry.action_ = actions[event.action];
  entry.time_.t_ = static_cast<int64_t>(event.time_us);
  if (event.internal) entry.internal_metadata_ = event.internal;
  return entry;
}

SnapshotInfo Millpond::snapshot(MempoolId_t id, bool traces) {
  SnapshotInfo info;
  mp_pool_id only = id_of(id);
  for (auto* device : devices_) {
    mp_snapshot* taken = nullptr;
    check(mp_snapshot_create(device, id == MempoolId_t{0, 0} ? nullptr : &only, traces, &taken));
    std::unique_ptr<mp_snapshot, void (*)(mp_snapshot*)> owned(taken, mp_snapshot_destroy);
    size_t count = 0;
    const mp_segment* segments = mp_snapshot_segments(taken, &count);
    for (size_t i = 0; i < count; ++i) {
      const mp_segment& from = segments[i];
      SegmentInfo segment;
      segment.device = static_cast<DeviceIndex>(from.device);
      segment.address = from.addr;
      segment.total_size = from.total_size;
      segment.requested_size = from.requested_size;
      segment.allocated_size = from.allocated_size;
      segment.active_size = from.active_size;
      segment.stream = pointer(from.stream);
      segment.is_large = !from.is_small;
      segment.is_expandable = from.is_expandable;
      segment.owner_private_pool_id = {from.pool.first, from.pool.second};
      segment.context_when_allocated = context_of(from.stack);
      for (size_t k = 0; k < from.block_count; ++k) {
        BlockInfo block;
        block.size = from.blocks[k].size;
        block.requested_size = from.blocks[k].requested;
        block.allocated = from.blocks[k].state == MP_BLOCK_LIVE;
        block.active = from.blocks[k].state != MP_BLOCK_FREE;
        block.context_when_allocated = context_of(from.blocks[k].stack);
        segment.blocks.push_back(std::move(block));
      }
      info.segments.push_back(std::move(segment));
    }
    auto& trace = info.device_traces.emplace_back();
    const mp_event* events = mp_snapshot_events(taken, &count);
    for (size_t i = 0; i < count; ++i) {
      trace.push_back(entry(events[i]));
      trace.back().time_.t_ += clock_;
    }
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    info.external_annotations = annotations_;
  }
  using Generic = c10::CachingAllocator::AcceleratorAllocatorConfig;
  auto& config = info.config_metadata;
  config.garbage_collection_threshold = Generic::garbage_collection_threshold();
  config.max_split_size = Generic::max_split_size();
  config.pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
  config.expandable_segments = CUDAAllocatorConfig::expandable_segments();
  config.release_lock_on_malloc = CUDAAllocatorConfig::release_lock_on_cudamalloc();
  config.pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
  config.graph_capture_record_stream_reuse = CUDAAllocatorConfig::graph_capture_record_stream_reuse();
  config.last_allocator_settings = Generic::last_allocator_settings();
  config.roundup_power2_divisions = Generic::roundup_power2_divisions();
  config.max_round_threshold = Generic::pinned_max_round_threshold();
  config.max_cached_size = Generic::pinned_max_cached_size();
  return info;
}

Millpond& millpond() {
  static Millpond* only = new Millpond;
  return *only;
}

void delete_block(void* block) { millpond().raw_delete(block); }

}  // namespace

// Makes PyTorch use Millpond; to be called before CUDA is initialised. PyTorch then calls `init` itself.
extern "C" void millpond_torch_install() {
  c10::cuda::CUDACachingAllocator::allocator.store(&millpond());
  c10::SetAllocator(c10::DeviceType::CUDA, &millpond(), 0);
}
