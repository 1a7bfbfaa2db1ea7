// Millpond: a caching allocator for CUDA devices, with the decisions of PyTorch 2.15.
//
// A *world* is what the allocators of a process share: the driver, the settings, the ids of memory pools. It has one
// allocator for each device. Every function that can fail returns a status; the text of the calling thread's last error
// is mp_error_text(). No function throws or aborts, and no callback may: a C++ exception must not leave one.
//
// Sizes are bytes, streams are CUstream handles as numbers, addresses CUdeviceptr. A pointer may be NULL only where that is
// said. Any thread may call any function at any time, except that nothing may be destroyed while it is used.


#ifndef MILLPOND_H
#define MILLPOND_H

// Made from bindings/c/src by `MILLPOND_UPDATE=1 cargo test -p millpond-c --test header`. Do not edit.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A block was handed out; size: requested bytes.
#define MP_ACTION_ALLOC 0

// A block was given back by its owner; size: requested bytes.
#define MP_ACTION_FREE_REQUESTED 1

// A block is free again; size: requested bytes.
#define MP_ACTION_FREE_COMPLETED 2

// Memory came from the driver or a custom allocator; size: bytes of the segment.
#define MP_ACTION_SEGMENT_ALLOC 3

// Such memory went back.
#define MP_ACTION_SEGMENT_FREE 4

// Pages were mapped; size: mapped bytes.
#define MP_ACTION_SEGMENT_MAP 5

// Pages were unmapped.
#define MP_ACTION_SEGMENT_UNMAP 6

// An out-of-memory error was raised; size: rounded bytes, addr: free bytes of the device.
#define MP_ACTION_OOM 7

// A snapshot was taken; size: active bytes.
#define MP_ACTION_SNAPSHOT 8

// A live block was annotated; size: requested bytes.
#define MP_ACTION_ANNOTATE 9

// The allocator synchronised and asks the driver once more. Not in PyTorch's traces.
#define MP_ACTION_RETRY 10

// All streams' events were waited for. Not in PyTorch's traces.
#define MP_ACTION_SYNCHRONISED 11

// A request was rejected by policy. Not in PyTorch's traces.
#define MP_ACTION_REJECTED 12

// Stacks are kept nowhere.
#define MP_LEVEL_NEVER 0

// Stacks are kept on live blocks.
#define MP_LEVEL_STATE 1

// Stacks are kept also in trace entries.
#define MP_LEVEL_ALLOC 2

// Stacks are kept also for frees.
#define MP_LEVEL_ALL 3

// Every request.
#define MP_FILTER_ANY 0

// Requests of the thread that opens the scope.
#define MP_FILTER_THREAD 1

// Requests on one stream.
#define MP_FILTER_STREAM 2

// Requests on streams that a function accepts.
#define MP_FILTER_FUNCTION 3

// The block is live.
#define MP_BLOCK_LIVE 0

// The block was given back; other streams may still use it.
#define MP_BLOCK_PENDING 1

// The block is free.
#define MP_BLOCK_FREE 2

// How many metrics there are.
#define MP_METRICS 11

// Live allocations.
#define MP_METRIC_ALLOCATION 0

// Bytes of live blocks.
#define MP_METRIC_ALLOCATED_BYTES 1

// Bytes that callers asked for, of blocks that are live or waiting.
#define MP_METRIC_REQUESTED_BYTES 2

// Blocks that are live or wait for events.
#define MP_METRIC_ACTIVE 3

// Bytes of blocks that are live or wait for events.
#define MP_METRIC_ACTIVE_BYTES 4

// Free parts of split blocks; cudaMalloc segments only.
#define MP_METRIC_INACTIVE_SPLIT 5

// Bytes of free parts of split blocks; cudaMalloc segments only.
#define MP_METRIC_INACTIVE_SPLIT_BYTES 6

// cudaMalloc segments.
#define MP_METRIC_SEGMENT 7

// Bytes held from the driver.
#define MP_METRIC_RESERVED_BYTES 8

// Live allocations of max_split_size or more.
#define MP_METRIC_OVERSIZE_ALLOCATIONS 9

// Segments of max_split_size or more.
#define MP_METRIC_OVERSIZE_SEGMENTS 10

// The version of this interface. It rises when a function goes or changes its meaning, not when one is added.
#define MP_ABI_VERSION 1

// What a function answers. Numbers keep their meaning for good.
enum mp_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It was done.
    MP_OK = 0,
    // The device has no room.
    MP_OUT_OF_MEMORY = 1,
    // A request of 2^60 bytes or more.
    MP_TOO_LARGE = 2,
    // A request beyond per_process_memory_fraction under throw_on_cudamalloc_oom.
    MP_REJECTED = 3,
    // The driver failed for another reason than memory: mp_error_driver_code().
    MP_DRIVER = 4,
    // No live block starts at the address.
    MP_UNKNOWN_ADDRESS = 5,
    // A stream of another device.
    MP_WRONG_DEVICE = 6,
    // The calling thread's stream is in a capture that was invalidated.
    MP_CAPTURE_INVALIDATED = 7,
    // The streams of a block do not capture into one graph.
    MP_CAPTURE_MISMATCH = 8,
    // The capture and the open pool scopes do not fit together.
    MP_CAPTURE_SCOPE = 9,
    // A fraction outside of 0 to 1.
    MP_INVALID_FRACTION = 10,
    // No memory pool has this id.
    MP_UNKNOWN_POOL = 11,
    // The last owner of the memory pool has let go.
    MP_POOL_RELEASED = 12,
    // The memory pool exists, and its allocator cannot be changed.
    MP_POOL_EXISTS = 13,
    // A scope for the memory pool is open.
    MP_SCOPE_OPEN = 14,
    // No scope for the memory pool is open.
    MP_SCOPE_NOT_OPEN = 15,
    // An exact address that is no multiple of 512.
    MP_MISALIGNED_ADDRESS = 16,
    // No free block covers the exact range.
    MP_ADDRESS_NOT_FREE = 17,
    // The address lies in an expandable segment, which has no base of its own.
    MP_EXPANDABLE = 18,
    // Caching is off, and the call needs it.
    MP_CACHING_DISABLED = 19,
    // The memory pool cannot be saved now.
    MP_NO_CHECKPOINT = 20,
    // The saved state does not fit any more.
    MP_STALE_CHECKPOINT = 21,
    // A custom allocator gave memory that is in use.
    MP_CUSTOM_OVERLAP = 22,
    // A custom allocator asked for memory of the memory pool that it serves.
    MP_CUSTOM_ASKS_ITSELF = 23,
    // The CUDA driver is missing, too old or does not start.
    MP_NO_DRIVER = 64,
    // A setting is not understood.
    MP_SETTINGS = 65,
    // A null pointer, or a number that means nothing.
    MP_INVALID_ARGUMENT = 66,
    // A file could not be written.
    MP_FILE = 67,
    // mp_verify found the allocator inconsistent: a fault in here.
    MP_VIOLATION = 68,
    // A fault in here; what was asked for was not done.
    MP_INTERNAL = 69,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mp_status mp_status;
#else
typedef int32_t mp_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The allocator of one device.
typedef struct mp_allocator mp_allocator;

// The state of a memory pool at one moment.
typedef struct mp_checkpoint mp_checkpoint;

// Where `resolve` puts the frames of a stack.
typedef struct mp_frames mp_frames;

// Pages that stay where they are.
typedef struct mp_pinned_pages mp_pinned_pages;

// What restoring a saved state did to live blocks. An address can be in both lists.
typedef struct mp_restored mp_restored;

// The state of an allocator at one moment, and its history.
typedef struct mp_snapshot mp_snapshot;

// A shared string, for what every call of a thread carries (mp_caller).
typedef struct mp_text mp_text;

// What the allocators of a process share.
typedef struct mp_world mp_world;

// Who calls: whether a call happens in a capture is a property of the calling thread's current stream, not of the request.
// Where a function takes a pointer to one, NULL stands for a thread whose current stream is the device's default stream,
// and in mp_alloc for one whose current stream is the request's.
typedef struct mp_caller {
    // The calling thread's current stream on the device.
    uint64_t stream;
    // The thread's user metadata; NULL for none.
    const struct mp_text *metadata;
    // The enclosing compiled region; NULL for none.
    const struct mp_text *compile_context;
} mp_caller;

// The id of a memory pool: {0, 0} is the default pool, {k, 0} a graph's, {0, k} a user's.
typedef struct mp_pool_id {
    // The graph's number.
    uint64_t first;
    // The user's number.
    uint64_t second;
} mp_pool_id;

// What a history records.
typedef struct mp_history_options {
    // When stacks are kept: one of MP_LEVEL_…
    uint32_t level;
    // The most entries kept; at least 1.
    size_t max_entries;
    // Whether what was recorded so far is dropped.
    bool clear;
    // Whether entries carry the enclosing compiled region.
    bool compile_context;
    // Names of actions that are not stored ("free_requested"); observers still see them.
    const char *const *skip_actions;
    // How many names.
    size_t skip_count;
} mp_history_options;

// One event. Pointers are valid as long as the event is.
typedef struct mp_event {
    // One of MP_ACTION_…
    uint32_t action;
    // The device.
    int32_t device;
    // Where.
    uint64_t addr;
    // How many bytes.
    uint64_t size;
    // The stream of the block or segment.
    uint64_t stream;
    // Microseconds on the driver's clock.
    uint64_t time_us;
    // The memory pool.
    struct mp_pool_id pool;
    // The token of the stack; 0 for none.
    uint64_t stack;
    // The thread's user metadata, or an annotation; NULL for none.
    const char *metadata;
    // The enclosing compiled region; NULL for none.
    const char *compile_context;
    // Which special operation the event is part of; NULL for none.
    const char *internal;
} mp_event;

// What was known when a request failed. Sizes are bytes.
typedef struct mp_oom {
    // The device.
    int32_t device;
    // The stream of the request.
    uint64_t stream;
    // The memory pool of the request.
    struct mp_pool_id pool;
    // What the caller asked for.
    uint64_t requested;
    // The request, rounded.
    uint64_t rounded;
    // What was asked of the driver.
    uint64_t alloc_size;
    // Free on the device.
    uint64_t device_free;
    // All of the device.
    uint64_t device_total;
    // The limit; UINT64_MAX without one.
    uint64_t limit;
    // Bytes of live blocks.
    uint64_t allocated;
    // Bytes held from the driver.
    uint64_t reserved;
    // Bytes cached in private pools.
    uint64_t cached_in_private_pools;
} mp_oom;

// A memory pool's own source of segments. The functions are called under no lock and from any thread. What they give comes
// from elsewhere: an `alloc` that asks for memory of the pool that it serves is refused, and so is memory of this allocator.
typedef struct mp_custom_allocator {
    // Passed to each function.
    void *user;
    // `bytes` of device memory, usable on `stream`; 0 counts as out of memory.
    uint64_t (*alloc)(void *user, uint64_t bytes, uint64_t stream);
    // Takes back what `alloc` gave, with the same size.
    void (*free)(void *user, uint64_t addr, uint64_t bytes, uint64_t stream);
    // Called once, when nobody will call the others any more; may be NULL.
    void (*drop)(void *user);
} mp_custom_allocator;

// Which requests a scope takes.
typedef struct mp_filter {
    // One of MP_FILTER_…
    uint32_t kind;
    // The stream of MP_FILTER_STREAM.
    uint64_t stream;
    // Passed to the functions.
    void *user;
    // Whether a stream's requests are taken, for MP_FILTER_FUNCTION. Called under no lock and from any thread.
    bool (*accepts)(void *user, uint64_t stream);
    // Called once, when `accepts` will not be called any more; may be NULL.
    void (*drop)(void *user);
} mp_filter;

// An expandable segment.
typedef struct mp_expandable_segment {
    // Its stream.
    uint64_t stream;
    // Whether it serves requests up to 1 MiB.
    bool is_small;
    // Bytes mapped.
    uint64_t mapped;
} mp_expandable_segment;

// A range of a segment.
typedef struct mp_block {
    // First byte.
    uint64_t addr;
    // Bytes.
    uint64_t size;
    // Bytes asked for; of a free block the last value.
    uint64_t requested;
    // One of MP_BLOCK_…
    uint32_t state;
    // The token of the stack that allocated it; 0 for none.
    uint64_t stack;
} mp_block;

// One driver allocation, or one contiguous mapped range of an expandable segment.
typedef struct mp_segment {
    // The device.
    int32_t device;
    // First byte.
    uint64_t addr;
    // Bytes.
    uint64_t total_size;
    // Bytes of live blocks.
    uint64_t allocated_size;
    // Bytes of live and pending blocks.
    uint64_t active_size;
    // Bytes asked for, over live and pending blocks.
    uint64_t requested_size;
    // Its stream.
    uint64_t stream;
    // Whether it serves requests up to 1 MiB.
    bool is_small;
    // Whether it is a range of an expandable segment.
    bool is_expandable;
    // Its memory pool.
    struct mp_pool_id pool;
    // The token of the stack that asked for it; 0 for none.
    uint64_t stack;
    // Its blocks, by address.
    const struct mp_block *blocks;
    // How many.
    size_t block_count;
} mp_segment;

// How the program captures call stacks. `capture` is called under no lock, and only while the history asks for stacks.
typedef struct mp_stack_source {
    // Passed to each function.
    void *user;
    // A token for the calling thread's stack, or 0 for none.
    uint64_t (*capture)(void *user);
    // Nobody holds the token any more. Each token that `capture` gives is released once.
    void (*release)(void *user, uint64_t token);
    // Adds the frames of a token, innermost first, with mp_frames_add: for snapshots that are written to a file. May be
    // NULL; stacks are left out of files then.
    void (*resolve)(void *user, uint64_t token, struct mp_frames *frames);
} mp_stack_source;

// One counter: bytes or a number.
typedef struct mp_stat {
    // The value now.
    int64_t current;
    // The highest value since the last reset of peaks.
    int64_t peak;
    // The sum of all increases since the last reset of accumulated figures.
    int64_t allocated;
    // The sum of all decreases since then.
    int64_t freed;
} mp_stat;

// The statistics of a device.
typedef struct mp_stats {
    // By MP_METRIC_…; then all, small pool, large pool.
    struct mp_stat metrics[MP_METRICS][3];
    // Allocations tried again after the synchronising release.
    int64_t num_alloc_retries;
    // Out-of-memory errors.
    int64_t num_ooms;
    // Synchronising releases.
    int64_t num_sync_all_streams;
    // Allocations and mapped ranges that the driver gave.
    int64_t num_device_alloc;
    // Allocations and mapped ranges that the driver got back.
    int64_t num_device_free;
    // Requests rejected by policy.
    int64_t num_oom_rejections;
    // max_split_size when the allocator was made; -1 for unlimited.
    int64_t max_split_size;
} mp_stats;

// Bytes that a private pool holds from the driver.
typedef struct mp_pool_stat {
    // The pool.
    struct mp_pool_id pool;
    // All, small pool, large pool.
    struct mp_stat reserved[3];
} mp_pool_stat;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// At least `size` bytes for work on `stream`; address 0 for a size of 0.
mp_status mp_alloc(const struct mp_allocator *allocator,
                   uint64_t size,
                   uint64_t stream,
                   const struct mp_caller *caller,
                   uint64_t *addr);

// `size` bytes at exactly `addr`, which must lie in a free block of the pool that would serve the request.
mp_status mp_alloc_at(const struct mp_allocator *allocator,
                      uint64_t addr,
                      uint64_t size,
                      uint64_t stream,
                      const struct mp_caller *caller);

// Gives a live block back; 0 does nothing. The block is free at once, or when the recorded streams have done what they had
// queued.
mp_status mp_free(const struct mp_allocator *allocator,
                  uint64_t addr,
                  const struct mp_caller *caller);

// Records that work on `stream` uses the live block at `addr`. 0 and addresses of other allocators are ignored, as in
// PyTorch; `known` then says false.
mp_status mp_record_stream(const struct mp_allocator *allocator,
                           uint64_t addr,
                           uint64_t stream,
                           const struct mp_caller *caller,
                           bool *known);

// Tells the number by which PyTorch knows a stream (its stream id), to be called before the stream is first recorded. Blocks
// that several streams used become free in an order that PyTorch takes from these numbers; without one it is that of a stream
// that PyTorch did not make.
mp_status mp_name_stream(const struct mp_allocator *allocator,
                         uint64_t stream,
                         uint64_t id);

// Gives all cached memory back that no live block holds fast.
mp_status mp_empty_cache(const struct mp_allocator *allocator, const struct mp_caller *caller);

// The same for one memory pool that nobody owns any more; {0, 0} is mp_empty_cache.
mp_status mp_empty_pool_cache(const struct mp_allocator *allocator,
                              struct mp_pool_id pool,
                              const struct mp_caller *caller);

// Frees what has completed, without a request.
mp_status mp_process_events(const struct mp_allocator *allocator, const struct mp_caller *caller);

// Limits the allocator to a fraction of the device's memory; 1 removes the limit.
mp_status mp_set_memory_fraction(const struct mp_allocator *allocator, double fraction);

// The limit as a fraction; 1 without one.
mp_status mp_memory_fraction(const struct mp_allocator *allocator, double *fraction);

// Turns caching off or on. Live blocks stay valid.
mp_status mp_enable_caching(const struct mp_allocator *allocator, bool on);

// Whether caching is on.
mp_status mp_is_caching(const struct mp_allocator *allocator, bool *on);

// Requested and rounded bytes of the live block at `addr`.
mp_status mp_size_of(const struct mp_allocator *allocator, uint64_t addr, uint64_t *requested, uint64_t *rounded);

// Base and bytes of the segment that holds the live block at `addr`.
mp_status mp_base_allocation(const struct mp_allocator *allocator, uint64_t addr, uint64_t *base, uint64_t *size);

// Bytes of the largest free block of any pool, at least `floor`; a floor of 0 stands for the device's free memory.
mp_status mp_largest_block(const struct mp_allocator *allocator, uint64_t floor, uint64_t *size);

// Lets the device `peer` use this device's memory, what there is and what comes.
mp_status mp_enable_peer_access(const struct mp_allocator *allocator, int32_t peer);

// Writes an annotation of the live block at `addr` into the history.
mp_status mp_annotate(const struct mp_allocator *allocator,
                      uint64_t addr,
                      const char *text,
                      const struct mp_caller *caller);

// Recounts everything from the blocks: MP_VIOLATION with all that is wrong, a fault of this library. Costs time
// proportional to the number of blocks.
mp_status mp_verify(const struct mp_allocator *allocator);

// Saves the state of a memory pool.
mp_status mp_checkpoint_create(const struct mp_allocator *allocator,
                               struct mp_pool_id pool,
                               const struct mp_caller *caller,
                               struct mp_checkpoint **out);

// Destroys a saved state; NULL is fine.
void mp_checkpoint_destroy(struct mp_checkpoint *checkpoint);

// The addresses that were live, and how many; they belong to the saved state.
const uint64_t *mp_checkpoint_live(const struct mp_checkpoint *checkpoint, size_t *count);

// Brings a memory pool back to a saved state: its live blocks are freed, then those of the saved state are live again.
// Whether the state fits is checked before anything is changed.
mp_status mp_checkpoint_restore(const struct mp_allocator *allocator,
                                const struct mp_checkpoint *checkpoint,
                                const struct mp_caller *caller,
                                struct mp_restored **out);

// The blocks that were live and were freed, and how many.
const uint64_t *mp_restored_freed(const struct mp_restored *restored, size_t *count);

// The blocks that are live now, as the saved state says, and how many; the caller owns them.
const uint64_t *mp_restored_live(const struct mp_restored *restored, size_t *count);

// Destroys the lists; NULL is fine.
void mp_restored_destroy(struct mp_restored *restored);

// Writes what all allocators of the world hold, and their histories, into a file as torch.cuda.memory._dump_snapshot does. The
// file is written whole or not at all. Stacks are in it if the stack source resolves them.
mp_status mp_dump_snapshot(const struct mp_world *world,
                           const char *path);

// Starts or changes the history; NULL stops and clears it.
mp_status mp_record_history(const struct mp_allocator *allocator, const struct mp_history_options *options);

// Whether a history is kept; false for NULL.
bool mp_is_history_enabled(const struct mp_allocator *allocator);

// The token of the stack that allocated the live block at `addr`; 0 if there is none. It is valid as long as the block
// lives.
uint64_t mp_allocation_stack(const struct mp_allocator *allocator, uint64_t addr);

// Tells of all events, in order, some at a time, under no lock.
mp_status mp_attach_observer(const struct mp_allocator *allocator, void (*tell)(void *user,
                                                                                const struct mp_event *events,
                                                                                size_t count), void *user);

// Tells of out-of-memory errors before they are returned, under no lock.
mp_status mp_attach_oom_observer(const struct mp_allocator *allocator,
                                 void (*tell)(void *user, const struct mp_oom *oom),
                                 void *user);

// Tells of requests rejected by policy, under no lock.
mp_status mp_attach_rejection_observer(const struct mp_allocator *allocator,
                                       void (*tell)(void *user, const struct mp_oom *oom),
                                       void *user);

// Asks for memory when a request finds none; the function says whether it freed any. Called under no lock.
mp_status mp_attach_free_memory_callback(const struct mp_allocator *allocator, bool (*tell)(void *user), void *user);

// Holds the pages under `bytes` of the live block at `addr` fast: with `page_reuse` they do not move until
// `mp_unpin_pages`, also when the block is free again. For memory that is registered, exported, or known by its address to
// somebody who does not know the allocator.
mp_status mp_pin_pages(const struct mp_allocator *allocator,
                       uint64_t addr,
                       uint64_t bytes,
                       struct mp_pinned_pages **out);

// Lets the pages go; NULL is fine.
void mp_unpin_pages(struct mp_pinned_pages *pinned);

// For `alloc_fn`: memory on `stream`, NULL for a size of 0 or an error.
void *mp_torch_alloc(ptrdiff_t size, int32_t device, void *stream);

// For `free_fn`.
void mp_torch_free(void *pointer, ptrdiff_t _size, int32_t device, void *stream);

// For `set_init_fn`: makes the allocators.
void mp_torch_init(int32_t device_count);

// For `set_reset_fn`: gives the cached memory of all devices back.
void mp_torch_reset(void);

// For `set_memory_fraction_fn`.
void mp_torch_memory_fraction(double fraction, int32_t device);

// For `set_base_alloc_fn`: the segment that holds a live block; NULL if there is none of its own.
void *mp_torch_base_alloc(void *pointer, size_t *size);

// For `set_record_stream_fn`.
void mp_torch_record_stream(void *pointer, void *stream);

// A fresh id for a graph's pool.
mp_status mp_graph_pool_id(const struct mp_world *world, struct mp_pool_id *id);

// A fresh id for a user's pool.
mp_status mp_user_pool_id(const struct mp_world *world, struct mp_pool_id *id);

// Makes a memory pool with one reference, or adds a reference to one.
//
// @param custom where segments come from, if not from the driver; NULL for the driver. Copied. On an error its `drop` is
//   called, too.
mp_status mp_pool_create_or_incref(const struct mp_allocator *allocator,
                                   struct mp_pool_id pool,
                                   const struct mp_custom_allocator *custom);

// Drops a reference; without any the pool's memory returns at the next release.
mp_status mp_pool_release(const struct mp_allocator *allocator, struct mp_pool_id pool);

// References to a memory pool.
mp_status mp_pool_use_count(const struct mp_allocator *allocator, struct mp_pool_id pool, uint64_t *count);

// Lets a memory pool lend cached blocks when another request finds none, or stops that.
mp_status mp_pool_set_use_on_oom(const struct mp_allocator *allocator, struct mp_pool_id pool, bool lends);

// Makes a memory pool hand out whole blocks only.
mp_status mp_pool_set_no_split(const struct mp_allocator *allocator, struct mp_pool_id pool);

// Whether the live blocks of a memory pool are exactly those at the addresses.
mp_status mp_pool_has_exactly(const struct mp_allocator *allocator,
                              struct mp_pool_id pool,
                              const uint64_t *addrs,
                              size_t count,
                              bool *answer);

// Routes the requests that `filter` takes to a memory pool until mp_pool_end; one more reference to the pool, which is made
// if it is not there. A NULL filter takes all.
mp_status mp_pool_begin(const struct mp_allocator *allocator,
                        struct mp_pool_id pool,
                        const struct mp_filter *filter);

// Closes the scope; its reference stays until mp_pool_release.
mp_status mp_pool_end(const struct mp_allocator *allocator, struct mp_pool_id pool);

// Tells the allocator that a capture has begun on its device.
mp_status mp_mark_capture_begin(const struct mp_allocator *allocator);

// Tells the allocator that a capture has ended on its device.
mp_status mp_mark_capture_end(const struct mp_allocator *allocator);

// The world of the process, with the settings of the environment, made when it is first asked for. It lives as long as the
// process and is never destroyed.
mp_status mp_process_world(const struct mp_world **out);

// The allocator of a device in the world of the process.
mp_status mp_process_allocator(int32_t device, struct mp_allocator **out);

// The expandable segments, without those of the default stream, as PyTorch lists them.
//
// @param segments where they go; NULL to ask how many there are.
// @param capacity room for so many.
// @param count how many there are.
mp_status mp_expandable_segments(const struct mp_allocator *allocator,
                                 struct mp_expandable_segment *segments,
                                 size_t capacity,
                                 size_t *count);

// Changes settings; every allocator of the world acts on them from its next call.
//
// @param text settings.
// @param as_torch whether the text is read as PyTorch reads it: with all its tolerance, and keys that are not named go back
//   to their defaults where PyTorch's do. Else in Millpond's grammar, where an error changes nothing.
// @param warnings what PyTorch would warn of, one a line, for mp_string_destroy, or NULL; may be NULL.
mp_status mp_configure(const struct mp_world *world,
                       const char *text,
                       bool as_torch,
                       char **warnings);

// The settings in force, as JSON for mp_string_destroy: {"schema":1,"text":…,"settings":{key: value in words}}.
mp_status mp_settings_json(const struct mp_world *world, char **json);

// Tags a stream with a reserve class for expandable segments made later; an empty class removes the tag.
mp_status mp_set_reserve_class(const struct mp_world *world, uint64_t stream, const char *class_name);

// Takes a snapshot.
//
// @param pool only this memory pool; NULL for all.
// @param traces whether the history is part of it.
mp_status mp_snapshot_create(const struct mp_allocator *allocator,
                             const struct mp_pool_id *pool,
                             bool traces,
                             struct mp_snapshot **out);

// The segments, by address, and how many; they belong to the snapshot.
const struct mp_segment *mp_snapshot_segments(const struct mp_snapshot *snapshot, size_t *count);

// The history, oldest entry first, and how many; it belongs to the snapshot.
const struct mp_event *mp_snapshot_events(const struct mp_snapshot *snapshot, size_t *count);

// Destroys a snapshot; NULL is fine. Until then no token of a stack is released.
void mp_snapshot_destroy(struct mp_snapshot *snapshot);

// Adds a frame: its function, source file and line.
void mp_frames_add(struct mp_frames *frames, const char *name, const char *filename, int64_t line);

// Says how call stacks are captured in this world; NULL for not at all. Copied. What was captured before is released by the
// functions it came with.
mp_status mp_set_stack_source(const struct mp_world *world,
                              const struct mp_stack_source *source);

// The statistics, as one cut through all pools.
mp_status mp_stats_get(const struct mp_allocator *allocator, struct mp_stats *stats);

// What each private pool that ever was holds from the driver.
//
// @param pools where they go; NULL to ask how many there are.
// @param capacity room for so many.
// @param count how many there are.
mp_status mp_stats_private_pools(const struct mp_allocator *allocator,
                                 struct mp_pool_stat *pools,
                                 size_t capacity,
                                 size_t *count);

// The statistics under the names of torch.cuda.memory_stats, as JSON for mp_string_destroy:
// {"schema":1,"device":0,"stats":{name: number}}.
mp_status mp_stats_json(const struct mp_allocator *allocator, char **json);

// The table of torch.cuda.memory_summary, for mp_string_destroy.
mp_status mp_memory_summary(const struct mp_allocator *allocator, bool abbreviated, char **text);

// Peaks start again from what is held now.
mp_status mp_reset_peak_stats(const struct mp_allocator *allocator);

// Accumulated figures start again from 0.
mp_status mp_reset_accumulated_stats(const struct mp_allocator *allocator);

// The text of the calling thread's last error, for a person; empty before the first. It stays valid until the thread's
// next error. For MP_OUT_OF_MEMORY it is PyTorch's text to the letter.
const char *mp_error_text(void);

// The status of the calling thread's last error; MP_OK before the first.
mp_status mp_error_status(void);

// The CUresult of the calling thread's last error, where it came from the driver; else 0.
int32_t mp_error_driver_code(void);

// Whether PyTorch raises torch.OutOfMemoryError for this status.
bool mp_is_out_of_memory(int32_t status);

// The version of the interface that the library has; a program compares it with MP_ABI_VERSION.
uint32_t mp_abi_version(void);

// The library's version, "0.1.0" say.
const char *mp_version(void);

// Makes a shared string. Destroy it with mp_text_destroy when no call uses it any more; what was recorded keeps its own
// share.
mp_status mp_text_create(const char *text, struct mp_text **out);

// Destroys a shared string; NULL is fine.
void mp_text_destroy(struct mp_text *text);

// Destroys a string that a function of this library gave; NULL is fine.
void mp_string_destroy(char *text);

// Loads the driver and makes a world.
//
// @param conf settings in Millpond's grammar ("expandable_segments:True,max_split_size_mb:128"); NULL for those of the
//   environment: PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF by PyTorch's rules, then MILLPOND_CONF over them.
// @param warnings what PyTorch would warn of, one a line, for mp_string_destroy, or NULL; may be NULL.
mp_status mp_world_create(const char *conf, struct mp_world **out, char **warnings);

// Destroys a world and its allocators; their cached memory goes back to the driver. Live blocks keep theirs until the
// process ends. NULL is fine.
void mp_world_destroy(struct mp_world *world);

// How many devices there are; 0 for NULL.
int32_t mp_world_device_count(const struct mp_world *world);

// The allocator of a device, made when it is first asked for. It belongs to the world and lives as long.
mp_status mp_world_allocator(const struct mp_world *world, int32_t device, struct mp_allocator **out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_H */
