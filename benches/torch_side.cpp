// PyTorch's own caching allocator behind a few C functions, for vs_torch. A function that fails returns a text, NULL otherwise.

#include <c10/cuda/CUDACachingAllocator.h>

#include <string>

namespace c10::cuda {
namespace _internal {
C10_CUDA_API void setHasPrimaryContext(bool (*func)(DeviceIndex));
}
namespace detail {
C10_CUDA_API void init_p2p_access_cache(int64_t devices);
}
} // namespace c10::cuda

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace {

thread_local std::string text;

template <class Body>
const char* caught(Body body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

} // namespace

// What `torch.cuda.init()` does for the allocator; the rest of libtorch, which registers the context's hook, is not loaded.
extern "C" const char* torch_start() {
  return caught([] {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    c10::cuda::detail::init_p2p_access_cache(1);
    allocator::init(1);
  });
}

extern "C" const char* torch_alloc(uint64_t size, uint64_t stream, uint64_t* addr) {
  return caught([&] {
    *addr = reinterpret_cast<uint64_t>(allocator::raw_alloc_with_stream(size, reinterpret_cast<cudaStream_t>(stream)));
  });
}

extern "C" const char* torch_free(uint64_t addr) {
  return caught([&] { allocator::raw_delete(reinterpret_cast<void*>(addr)); });
}

extern "C" const char* torch_history(bool on, size_t entries) {
  return caught([&] { allocator::recordHistory(on, nullptr, entries, allocator::RecordContext::NEVER, true, {}); });
}

extern "C" const char* torch_empty_cache() {
  return caught([] { allocator::emptyCache(); });
}
