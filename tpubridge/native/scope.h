// Inside of a function that a program calls: libtorch's ops as kernels and nothing else, on this thread
// alone.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include "tpubridge/device/torch.h"

// Of OpenMP and of MKL, where this libtorch has them.
extern "C" {
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int threads);
[[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);
}

namespace tpubridge::native {

// libtorch's threads would stand beside the plugin's, and both would wait for a core.
class OneThread {
 public:
  OneThread() : openmp_(at::get_num_threads()) {  // at a thread's first use of it, this sets the number
    if (omp_set_num_threads) omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local) mkl_ = MKL_Set_Num_Threads_Local(1);
  }
  ~OneThread() {
    if (omp_set_num_threads) omp_set_num_threads(openmp_);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(mkl_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int openmp_, mkl_ = 0;
};

// A program may run on the user's own thread: whatever that one is in the middle of (a recording, autocast, a
// profile, a gradient), these ops are no part of it.
struct KernelScope {
  c10::impl::ForceDispatchKeyGuard keys{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  at::DisableRecordFunctionGuard unseen;
  OneThread alone;
};

}  // namespace tpubridge::native
