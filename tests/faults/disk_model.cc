#include "tests/faults/disk_model.h"

#include <algorithm>
#include <fstream>

namespace tpubridge::faults {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& now, const std::string& synced, Content content) {
  const size_t more = now.size() > synced.size() ? now.size() - synced.size() : 0;
  switch (content) {
    case Content::all:
      return now;
    case Content::none:
      return synced;
    case Content::half:
      return now.substr(0, now.size() - more / 2);
    default:
      return now.substr(0, now.size() - more) + std::string(more, '\0');
  }
}

}  // namespace

DiskModel::DiskModel(Path folder) : folder_(std::move(folder)), root_(std::make_shared<Node>()) {
  read(*root_, folder_);
}

void DiskModel::read(Node& node, const Path& path) {
  node.folder = fs::is_directory(path);
  if (!node.folder) {
    node.now = node.synced = read_file(path);
    return;
  }
  for (const auto& e : fs::directory_iterator(path)) {
    auto child = std::make_shared<Node>();
    read(*child, e.path());
    node.names[e.path().filename().string()] = std::move(child);
  }
  node.synced_names = node.names;
}

std::shared_ptr<DiskModel::Node>* DiskModel::find(const Path& path, bool make) {
  std::shared_ptr<Node>* at = &root_;
  const Path inside = path.lexically_relative(folder_);
  if (inside.empty() || *inside.begin() == "..") return nullptr;
  for (const Path& part : inside) {
    if (part == ".") continue;
    auto& names = (*at)->names;
    const auto it = names.find(part.string());
    if (it == names.end() && !make) return nullptr;
    at = it == names.end() ? &names[part.string()] : &it->second;
    if (!*at) *at = std::make_shared<Node>();
  }
  return at;
}

void DiskModel::apply(const Change& c) {
  using Kind = Change::Kind;
  const bool makes = c.kind == Kind::create || c.kind == Kind::folder;
  std::shared_ptr<Node>* const node = find(c.path, makes);
  if (node == nullptr) return;
  Node& at = **node;
  if (c.kind == Kind::folder) at.folder = true;
  if (c.kind == Kind::write) at.now += c.data;
  if (c.kind == Kind::truncate) at.now.clear();
  if (c.kind == Kind::sync) at.synced = at.now, at.synced_names = at.names;
  if (c.kind == Kind::exchange) std::swap(*node, *find(c.to));
  if (c.kind == Kind::rename) *find(c.to, true) = *node;
  if (c.kind == Kind::rename || c.kind == Kind::remove)
    (*find(Path(c.path).parent_path()))->names.erase(Path(c.path).filename().string());
}

void DiskModel::visit(const Node& node, const Path& path, Content content, Names names, bool top,
                      const Visit& use) {
  use(path, node, content_of(node.now, node.synced, content));
  const bool lost = names == Names::none || (names == Names::none_at_the_top && top) ||
                    (names == Names::none_below && !top);
  for (const auto& [name, child] : lost ? node.synced_names : node.names)
    visit(*child, path / name, content, names, false, use);
}

void DiskModel::write_out(Content content, Names names) const {
  fs::remove_all(folder_);
  visit(*root_, folder_, content, names, true,
        [](const Path& path, const Node& node, const std::string& text) {
          if (node.folder)
            fs::create_directory(path);
          else
            std::ofstream(path, std::ios::binary) << text;
          fs::permissions(
              path, node.folder ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write);
        });
}

std::string DiskModel::describe(Content content, Names names) const {
  std::string out;
  visit(*root_, folder_, content, names, true, [&](const Path& path, const Node&, const std::string& text) {
    out += path.string() + "\n" + std::to_string(text.size()) + "\n" + text;
  });
  return out;
}

}  // namespace tpubridge::faults
