#include "tpubridge/exec/sized.h"

#include <list>

#include "tpubridge/base/log.h"
#include "tpubridge/exec/resize.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/hlo/sized_text.h"

namespace tpubridge::exec {
namespace {

using hlo::NumberedText;
using hlo::SizedText;

constexpr size_t kSizedPrograms = 128;      // so many programs are remembered
constexpr size_t kLongestText = 512 << 10;  // longer ones are not looked at
constexpr int kOwnPrograms = 2;             // that have programs of their own

// Programs that differ in sizes alone.
struct SizedKind {
  Mode mode;
  NumberedText last;
  int seen = 1;
  std::optional<SizedText> sized = {};
  bool refused = false;
  struct Made {
    std::vector<int64_t> of;  // sizes
    SizedText::Bounded program;
  };
  std::list<Made> made = {};  // one for each power of two
};

std::list<SizedKind>& sized_kinds() {
  static auto* all = new std::list<SizedKind>;  // most recent first; as the programs
  return *all;
}

SizedKind* find_kind(const NumberedText& text, const Mode& mode) {
  auto& all = sized_kinds();
  for (auto it = all.begin(); it != all.end(); ++it)
    if (it->mode == mode && it->last.same_skeleton(text)) {
      all.splice(all.begin(), all, it);
      return &all.front();
    }
  return nullptr;
}

// Of the program that is good for these sizes, made now where there is none.
const SizedText::Bounded* made_for(SizedKind& kind, const NumberedText& text) {
  const auto sizes = kind.sized->sizes_of(text);
  if (!sizes) return nullptr;
  for (const auto& m : kind.made)
    if (kind.sized->fits(*sizes, m.of)) return &m.program;
  std::string why;
  auto program = kind.sized->bounded(text, &why);
  if (!program) {
    log::debug("program.one_size", {{"because of", why}});
    return nullptr;
  }
  return &kind.made.emplace_back(SizedKind::Made{*sizes, std::move(*program)}).program;
}

}  // namespace

std::shared_ptr<const SizedProgram> sized_program(const std::string& text, const Mode& mode, Sizes how) {
  if (how == Sizes::one || text.size() > kLongestText) return nullptr;
  NumberedText now(text);
  SizedKind* kind = find_kind(now, mode);
  if (!kind) {
    sized_kinds().push_front({mode, std::move(now)});
    if (sized_kinds().size() > kSizedPrograms) sized_kinds().pop_back();
    return nullptr;
  }
  const bool same = kind->last.text() == text;
  if (!same) ++kind->seen;
  const SizedText::Bounded* program = nullptr;
  if (!kind->refused && (how == Sizes::changing || kind->seen > kOwnPrograms)) {
    if (kind->sized) program = made_for(*kind, now);
    // The first one, or what grew together does not any more. A size of 0 has a program of its own.
    auto other = program || same ? std::nullopt : SizedText::make(kind->last, now);
    if (other && other->sizes_of(now)) {
      kind->made.clear();
      kind->sized = std::move(other);
      program = made_for(*kind, now);
      kind->refused = !program;
    }
  }
  std::shared_ptr<SizedProgram> out;
  if (program) {
    out = std::make_shared<SizedProgram>();
    out->text = program->text;
    out->sizing = {program->parameters, program->results, *kind->sized->sizes_of(now), 0};
  }
  kind->last = std::move(now);
  return out;
}

void refuse_sized(const std::string& text, const Mode& mode) {
  if (SizedKind* kind = find_kind(NumberedText(text), mode)) kind->refused = true, kind->made.clear();
}

std::vector<const pjrt::Buffer*> sized_arguments(std::span<const GivenLeaf> leaves, const Sizing& sizing,
                                                 std::vector<pjrt::Buffer>& made) {
  std::vector<const pjrt::Buffer*> out;
  made.reserve(made.size() + leaves.size());  // they must not move
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& data = static_cast<const BufferData&>(*leaves[i].data);
    if (data.as_it_is().shape() == sizing.parameters[i]) {
      out.push_back(&data.as_it_is());
    } else {
      made.push_back(resized(data, leaves[i].shape, sizing.parameters[i]));
      out.push_back(&made.back());
    }
  }
  return out;
}

}  // namespace tpubridge::exec
