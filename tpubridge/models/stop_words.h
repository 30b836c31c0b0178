// Text that is shown while it grows, up to a word that ends it: what may be the beginning of one is held
// back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpubridge {

class StopWords {
 public:
  explicit StopWords(std::vector<std::string> words);

  [[nodiscard]] std::string add(std::string_view text);  // what may be shown now
  [[nodiscard]] std::string finish();                    // what was held back, where no word came
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> words_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tpubridge
