// The emulated device: its memory, and what CUDA's driver and cuBLAS do with it. A stream and a handle of cuBLAS are
// both the device itself, and what is asked of it is done at once.
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <sys/mman.h>
#include <time.h>
#include "products.h"

using namespace emulation;

namespace {
// as in `cuda.h`
enum {
  INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
};
const uint64_t DEVICE = 0x6563697665646c64ull;  // what a device begins with
const uint64_t ALIGNMENT = 256;
const unsigned char POISON = 0xFD;

struct Device;
using Operation = std::function<int(Device &)>;
using Graph = std::vector<Operation>;
struct Keeping {
  Graph *graph;
  bool invalid;
};

// stacks: for the threads of a block. keeping: what threads ask for while that is not done. culprit: the kernel that was
// wrong last.
struct Device {
  uint64_t mark = DEVICE;
  uint64_t capacity, used = 0;
  unsigned order = 0;
  long long largest_index = 0x7fffffff;
  std::vector<Block> blocks;
  char *stacks = nullptr;
  std::map<std::thread::id, Keeping> keeping;
  const Kernel *culprit = nullptr;
  char message[768] = "";
  std::recursive_mutex mutex;

  Memory memory() { return {blocks.data(), blocks.size()}; }

  int wrong(int status, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(message, sizeof message, format, rest);
    va_end(rest);
    culprit = nullptr;
    return status;
  }
  // Of the calling thread; null if what it asks for is done.
  Keeping *kept() {
    auto own = keeping.find(std::this_thread::get_id());
    return own == keeping.end() ? nullptr : &own->second;
  }
  // What can't be done while operations are kept spoils them.
  int refused(const char *what) {
    Keeping *own = kept();
    if (!own) return 0;
    own->invalid = true;
    return wrong(CAPTURE_UNSUPPORTED, "%s while a graph is made", what);
  }
  int apply(Operation operation) {
    Keeping *own = kept();
    if (!own) return operation(*this);
    own->graph->push_back(std::move(operation));
    return 0;
  }
  // The bytes at an address of the device, in which all are to be of one block; null, with what is wrong.
  char *bytes(uintptr_t address, uint64_t size, const char *what, unsigned char **written) {
    const Block *block = memory().find(address);
    const uint64_t from = block ? (address & ~FAR) - (uintptr_t)block->begin : 0;
    if (!block || block->bytes - from < size) {
      wrong(INVALID_VALUE, "%s of %llu bytes at %#llx, which %s", what, (unsigned long long)size,
            (unsigned long long)address, block ? "are not all of one array" : "is not memory of the device");
      return nullptr;
    }
    *written = block->written + from;
    return block->begin + from;
  }
};

Device *device_of(void *handle) {
  Device *device = (Device *)handle;
  return device && device->mark == DEVICE ? device : nullptr;
}

int launched(Device &device, const Kernel *kernel, const unsigned *sizes, void *const *parameters) {
  const Memory memory = device.memory();
  if (!device.stacks) {
    void *room = mmap(nullptr, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return device.wrong(OUT_OF_MEMORY, "there is no memory for stacks");
    device.stacks = (char *)room;
  }
  const Launch launch = {{sizes[0], sizes[1], sizes[2]}, {sizes[3], sizes[4], sizes[5]}, device.order,
                         device.largest_index, &memory, device.stacks};
  const char *wrong = kernel->run(launch, parameters);
  if (!wrong) return 0;
  device.wrong(LAUNCH_FAILED, "the kernel %s: %s", kernel->name, wrong);
  device.culprit = kernel;
  return LAUNCH_FAILED;
}

void removed(Device &device, size_t number) {
  const Block &block = device.blocks[number];
  device.used -= block.bytes;
  free(block.begin);
  free(block.written);
  device.blocks.erase(device.blocks.begin() + (long)number);
}
}  // namespace

#define GUARDED(device) std::lock_guard<std::recursive_mutex> guard((device)->mutex)

extern "C" {
// ---- what a program of the host calls ----
int dl_launch(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
              unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra) {
  Device *device = device_of(stream);
  if (!device) return INVALID_HANDLE;
  GUARDED(device);
  const Kernel *kernel = (const Kernel *)f;
  if (!kernel || kernel->mark != KERNEL) return device->wrong(INVALID_HANDLE, "a launch of what is no kernel");
  const std::vector<unsigned> sizes = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
  if (std::count(sizes.begin(), sizes.end(), 0u) || grid_x > 0x7fffffffu || grid_y > 0xffffu || grid_z > 0xffffu)
    return device->wrong(INVALID_VALUE, "a launch of %u x %u x %u blocks of %u x %u x %u threads", grid_x, grid_y,
                         grid_z, block_x, block_y, block_z);
  if (shared_bytes || extra)
    return device->wrong(INVALID_VALUE, "a launch with %s", extra ? "packed parameters" : "dynamic shared memory");
  if (!device->kept()) return launched(*device, kernel, sizes.data(), parameters);
  std::vector<std::vector<char>> values;  // as they are now
  for (uint64_t k = 0; k < kernel->count; ++k)
    values.emplace_back((char *)parameters[k], (char *)parameters[k] + kernel->sizes[k]);
  return device->apply([=](Device &again) {
    std::vector<const void *> given;
    for (const std::vector<char> &value : values) given.push_back(value.data());
    return launched(again, kernel, sizes.data(), (void *const *)given.data());
  });
}

int dl_copy(unsigned long long target, unsigned long long source, size_t size, void *stream) {
  Device *device = device_of(stream);
  if (!device) return INVALID_HANDLE;
  GUARDED(device);
  return device->apply([=](Device &d) {
    unsigned char *to_written, *from_written;
    if (!size) return 0;
    char *to = d.bytes(target, size, "a copy to", &to_written);
    if (!to) return (int)INVALID_VALUE;
    const char *from = d.bytes(source, size, "a copy", &from_written);
    if (!from) return (int)INVALID_VALUE;
    if (from < to + size && to < from + size) return d.wrong(INVALID_VALUE, "a copy of an array to where it is");
    memcpy(to, from, size);
    memcpy(to_written, from_written, size);
    return 0;
  });
}

int dl_fill(unsigned long long target, unsigned char value, size_t size, void *stream) {
  Device *device = device_of(stream);
  if (!device) return INVALID_HANDLE;
  GUARDED(device);
  return device->apply([=](Device &d) {
    unsigned char *written;
    if (!size) return 0;
    char *to = d.bytes(target, size, "a fill", &written);
    if (!to) return (int)INVALID_VALUE;
    memset(to, value, size);
    memset(written, 1, size);
    return 0;
  });
}

// an event is a word of the host: when it was
int dl_record(void *event, void *stream) {
  Device *device = device_of(stream);
  if (!device) return INVALID_HANDLE;
  GUARDED(device);
  if (int status = device->refused("a time is asked for")) return status;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *(int64_t *)event = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return 0;
}

int dl_product(void *handle, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const void *alpha,
               const void *a, int a_type, int64_t a_lead, long long a_stride, const void *b, int b_type, int64_t b_lead,
               long long b_stride, const void *beta, void *c, int c_type, int64_t c_lead, long long c_stride,
               int64_t batch, int compute, int) {
  Device *device = device_of(handle);
  if (!device) return INVALID_HANDLE;
  GUARDED(device);
  const bool wide = compute == COMPUTE_64 || compute == COMPUTE_64_PEDANTIC;
  auto scalar = [&](const void *p) { return wide ? *(const double *)p : (double)*(const float *)p; };
  if (!alpha || !beta) return device->wrong(BLAS_INVALID_VALUE, "a product without its scalars");
  Matrix left = {(uintptr_t)a, a_type, a_lead, a_stride, transpose_a ? k : m, transpose_a ? m : k};
  Matrix right = {(uintptr_t)b, b_type, b_lead, b_stride, transpose_b ? n : k, transpose_b ? k : n};
  const Matrix result = {(uintptr_t)c, c_type, c_lead, c_stride, m, n};
  const Product product = {transpose_a, transpose_b, m, n, k, batch, scalar(alpha), scalar(beta),
                           left, right, result, compute};
  const int status = checked(product, m, n, k);
  if (status)
    return device->wrong(status, "a product of %lld x %lld x %lld, of which cuBLAS takes not these sizes or types",
                         (long long)m, (long long)n, (long long)k);
  if (!m || !n || !batch) return 0;
  return device->apply([=](Device &d) {
    const char *wrong = nullptr;
    const int failed = computed(d.memory(), product, &wrong);
    return failed ? d.wrong(failed, "a product of %lld x %lld x %lld: a matrix %s", (long long)m, (long long)n,
                            (long long)k, wrong)
                  : 0;
  });
}

// ---- what the engine calls ----
void *dl_device_open(uint64_t capacity) {
  Device *device = new Device;
  device->capacity = capacity;
  return device;
}
void dl_device_close(void *handle) {
  Device *device = device_of(handle);
  while (!device->blocks.empty()) removed(*device, device->blocks.size() - 1);
  for (auto &own : device->keeping) delete own.second.graph;
  if (device->stacks) munmap(device->stacks, MOST_THREADS * STACK);
  device->mark = 0;
  delete device;
}
void dl_device_order(void *handle, unsigned order) { device_of(handle)->order = order; }
void dl_device_index(void *handle, int64_t largest) { device_of(handle)->largest_index = largest; }
const char *dl_device_message(void *handle) { return device_of(handle)->message; }
const void *dl_device_culprit(void *handle) { return device_of(handle)->culprit; }
uint64_t dl_device_used(void *handle) { return device_of(handle)->used; }

int dl_device_allocate(void *handle, uint64_t size, uint64_t *address) {
  Device *device = device_of(handle);
  GUARDED(device);
  if (int status = device->refused("an allocation")) return status;
  Block block = {nullptr, size, nullptr};
  void *begin = nullptr;
  if (size > device->capacity - device->used) return device->wrong(OUT_OF_MEMORY, "the memory of the device is full");
  // one more, so that the end of an array is not the beginning of another
  if (posix_memalign(&begin, ALIGNMENT, size + 1)) return device->wrong(OUT_OF_MEMORY, "there is no memory");
  block.begin = (char *)begin;
  block.written = (unsigned char *)calloc(size + 1, 1);
  if (!block.written) {
    free(begin);
    return device->wrong(OUT_OF_MEMORY, "there is no memory");
  }
  memset(begin, POISON, size);
  auto later = [](const Block &x, const Block &y) { return x.begin < y.begin; };
  device->blocks.insert(std::upper_bound(device->blocks.begin(), device->blocks.end(), block, later), block);
  device->used += size;
  *address = (uint64_t)(uintptr_t)begin | FAR;
  return 0;
}

int dl_device_free(void *handle, uint64_t address) {
  Device *device = device_of(handle);
  GUARDED(device);
  if (int status = device->refused("memory is given back")) return status;
  for (size_t k = 0; k < device->blocks.size(); ++k) {
    if (((uintptr_t)device->blocks[k].begin | FAR) != address) continue;
    removed(*device, k);
    return 0;
  }
  return device->wrong(INVALID_VALUE, "memory at %#llx is given back, which was not allocated",
                       (unsigned long long)address);
}

int dl_device_upload(void *handle, uint64_t target, const void *source, uint64_t size) {
  Device *device = device_of(handle);
  GUARDED(device);
  unsigned char *written;
  if (int status = device->refused("a copy from the host")) return status;
  char *to = size ? device->bytes(target, size, "an upload", &written) : nullptr;
  if (!to) return size ? INVALID_VALUE : 0;
  memcpy(to, source, size);
  memset(written, 1, size);
  return 0;
}

int dl_device_download(void *handle, void *target, uint64_t source, uint64_t size, int partly) {
  Device *device = device_of(handle);
  GUARDED(device);
  unsigned char *written;
  if (int status = device->refused("a copy to the host")) return status;
  const char *from = size ? device->bytes(source, size, "a download", &written) : nullptr;
  if (!from) return size ? INVALID_VALUE : 0;
  if (!partly && !all_written(written, size))
    return device->wrong(INVALID_VALUE, "a download of %llu bytes at %#llx, some of which were never written",
                         (unsigned long long)size, (unsigned long long)source);
  memcpy(target, from, size);
  return 0;
}

int dl_device_wait(void *handle) {
  Device *device = device_of(handle);
  GUARDED(device);
  return device->refused("the host waits");
}

// ---- graphs ----
int dl_device_begin(void *handle) {
  Device *device = device_of(handle);
  GUARDED(device);
  if (int status = device->refused("another graph is begun")) return status;
  device->keeping[std::this_thread::get_id()] = {new Graph, false};
  return 0;
}
// null: forgets it
int dl_device_end(void *handle, void **graph) {
  Device *device = device_of(handle);
  GUARDED(device);
  if (!device->kept()) return device->wrong(INVALID_VALUE, "a graph is ended that was not begun");
  const Keeping own = *device->kept();
  device->keeping.erase(std::this_thread::get_id());
  if (graph && !own.invalid) {
    *graph = own.graph;
    return 0;
  }
  delete own.graph;
  return graph ? CAPTURE_INVALIDATED : 0;
}
int dl_graph_launch(void *handle, void *graph) {
  Device *device = device_of(handle);
  GUARDED(device);
  if (int status = device->refused("a graph is launched")) return status;
  for (const Operation &operation : *(const Graph *)graph)
    if (int status = operation(*device)) return status;
  return 0;
}
void dl_graph_close(void *graph) { delete (Graph *)graph; }
}
