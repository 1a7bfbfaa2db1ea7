// Allocates, frees, records a stream, uses a memory pool, and prints what the allocator says of itself.
//
//     cc first_steps.c $(pkg-config --cflags --libs millpond) -o first_steps && millpond sim -- ./first_steps

#include <inttypes.h>
#include <millpond.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mp_status status, const char *what) {
    if (status != MP_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, (int)status, mp_error_text());
        exit(1);
    }
}

int main(void) {
    if (mp_abi_version() != MP_ABI_VERSION) {
        fprintf(stderr, "the library speaks version %u of the interface\n", mp_abi_version());
        return 1;
    }
    mp_world *world;
    mp_allocator *allocator;
    check(mp_world_create("expandable_segments:True", &world, NULL), "world");
    check(mp_world_allocator(world, 0, &allocator), "allocator");

    uint64_t addr, again;
    check(mp_alloc(allocator, 3 << 20, 0, NULL, &addr), "alloc");
    check(mp_free(allocator, addr, NULL), "free");
    check(mp_alloc(allocator, 3 << 20, 0, NULL, &again), "alloc");
    printf("the block was used again: %s\n", addr == again ? "yes" : "no");

    mp_pool_id pool;
    check(mp_user_pool_id(world, &pool), "pool id");
    check(mp_pool_create_or_incref(allocator, pool, NULL), "pool");
    mp_filter mine = {.kind = MP_FILTER_THREAD};
    check(mp_pool_begin(allocator, pool, &mine), "begin");
    uint64_t inside;
    check(mp_alloc(allocator, 1000, 0, NULL, &inside), "alloc in a pool");
    check(mp_pool_end(allocator, pool), "end");
    check(mp_free(allocator, inside, NULL), "free");
    check(mp_pool_release(allocator, pool), "release");
    check(mp_pool_release(allocator, pool), "release");

    mp_stats stats;
    check(mp_stats_get(allocator, &stats), "stats");
    printf("live: %" PRId64 " bytes\n", stats.metrics[MP_METRIC_ALLOCATED_BYTES][0].current);

    mp_status refused = mp_alloc(allocator, (uint64_t)1 << 50, 0, NULL, &inside);
    printf("a petabyte: %s\n", mp_is_out_of_memory(refused) ? "out of memory" : mp_error_text());

    check(mp_free(allocator, again, NULL), "free");
    check(mp_empty_cache(allocator, NULL), "empty");
    check(mp_verify(allocator), "verify");
    mp_world_destroy(world);
    return 0;
}
