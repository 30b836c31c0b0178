// Whether a program may call functions of this process (hlo/host_call.h): libtorch's kernels, and ours.
#pragma once

namespace tpubridge::lower {

// Programs that are lowered while it lives, by this thread, will be run in this process and on one device.
class RunsHere {
 public:
  explicit RunsHere(bool it);
  ~RunsHere();
  RunsHere(const RunsHere&) = delete;
  RunsHere& operator=(const RunsHere&) = delete;

 private:
  bool before_;
};
[[nodiscard]] bool runs_here();

// Where functions were measured to be faster than XLA's CPU plugin.
#if defined(__x86_64__)
inline constexpr bool kMeasuredHere = true;
#else
inline constexpr bool kMeasuredHere = false;
#endif

}  // namespace tpubridge::lower
