// Tables for the terminal: columns as wide as their widest cell, no wrapping, no trailing blanks.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tools/output.h"

namespace tpubridge::tools {

class Table {
 public:
  struct Cell {
    std::string text;
    Colour colour = Colour::plain;
    // Implicit, so that a row can be written as a list of texts.
    // NOLINTNEXTLINE(google-explicit-constructor)
    Cell(std::string t, Colour c = Colour::plain) : text(std::move(t)), colour(c) {}
    // NOLINTNEXTLINE(google-explicit-constructor)
    Cell(const char* t) : text(t) {}
  };

  explicit Table(std::vector<std::string> head = {}) {
    if (head.empty()) return;
    std::vector<Cell> row;
    row.reserve(head.size());
    for (auto& text : head) row.emplace_back(std::move(text), Colour::bold);
    rows_.push_back(std::move(row));
  }

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

  [[nodiscard]] std::string str(std::string_view indent = "") const {
    std::vector<size_t> widths;
    for (const auto& row : rows_)
      for (size_t i = 0; i < row.size(); ++i) {
        if (i == widths.size()) widths.push_back(0);
        widths[i] = std::max(widths[i], columns(row[i].text));
      }
    std::string out;
    for (const auto& row : rows_) {
      out += indent;
      size_t last = row.size();
      while (last > 0 && row[last - 1].text.empty()) --last;
      for (size_t i = 0; i < last; ++i) {
        out += paint(row[i].text, row[i].colour);
        if (i + 1 < last) out.append(widths[i] - columns(row[i].text) + 2, ' ');
      }
      out += '\n';
    }
    return out;
  }

 private:
  // UTF-8 continuation bytes take no column.
  static size_t columns(std::string_view text) {
    return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace tpubridge::tools
