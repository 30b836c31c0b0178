// What may be on the disk after a power cut, by what POSIX promises and no more: the content of a file as it
// was when it was last synced, the names in a folder as they were when the folder was last synced; of what
// came later any part may be there too.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/faults/interpose.h"
#include "tpubridge/base/files.h"

namespace tpubridge::faults {

// Of what was not synced: content of files, and names in folders.
enum class Content { all, none, half, zeros };
enum class Names { all, none, none_at_the_top, none_below };

class DiskModel {
 public:
  explicit DiskModel(Path folder);  // with what is in it now, all of it synced
  void apply(const Change& change);
  // The folder as a power cut leaves it.
  void write_out(Content content, Names names) const;
  [[nodiscard]] std::string describe(Content content, Names names) const;  // equal where it would be equal

 private:
  struct Node {
    bool folder = false;
    std::string now, synced;
    std::map<std::string, std::shared_ptr<Node>> names, synced_names;
  };
  using Visit = std::function<void(const Path&, const Node&, const std::string& content)>;
  static void read(Node& node, const Path& path);
  static void visit(const Node& node, const Path& path, Content content, Names names, bool top,
                    const Visit& use);
  std::shared_ptr<Node>* find(const Path& path, bool make = false);  // null where it is not in the folder

  Path folder_;
  std::shared_ptr<Node> root_;
};

}  // namespace tpubridge::faults
