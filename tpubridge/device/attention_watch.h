// Which attention ops a model calls, and whether each becomes one fused op.
#pragma once

#include <cstdint>
#include <vector>

namespace tpubridge::device {

struct AttentionCall {
  int64_t heads, head_size;
  bool fused;  // one op on the device; otherwise torch's composition
};

// While it lives, every scaled_dot_product_attention on this thread is noted.
class WatchAttention {
 public:
  WatchAttention();
  ~WatchAttention();
  WatchAttention(const WatchAttention&) = delete;
  WatchAttention& operator=(const WatchAttention&) = delete;
  std::vector<AttentionCall> calls = {};

 private:
  WatchAttention* before_;
};

}  // namespace tpubridge::device
