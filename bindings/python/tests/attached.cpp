// What a C++ program attaches to PyTorch's allocator: a trace tracker, and a callback that frees memory when there is none.

#include <c10/cuda/CUDACachingAllocator.h>

#include <string>

namespace allocator = c10::cuda::CUDACachingAllocator;

static std::string told;
static void* held = nullptr;

struct LetGo : c10::FreeMemoryCallback {
  bool Execute() override {
    if (!held) return false;
    allocator::raw_delete(std::exchange(held, nullptr));
    return true;
  }
};

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("let go", ::LetGo)
}

extern "C" {

void track() {
  allocator::attachAllocatorTraceTracker([](const allocator::TraceEntry& entry) {
    told += std::to_string(entry.action_) + ' ' + std::to_string(entry.addr_) + ' ' + std::to_string(entry.size_) + ' ' +
            entry.user_metadata_ + '\n';
  });
}

const char* tracked() { return told.c_str(); }

void hold(size_t size) { held = allocator::raw_alloc(size); }

}  // extern "C"
