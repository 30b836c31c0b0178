// The order of examples: a permutation that follows from the seed and the epoch alone.
#include "tpubridge/train/datasets.h"

#include <algorithm>
#include <numeric>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/torch.h"

namespace tpubridge {
namespace {

// The n-th number of a stream: no state, the same on every machine.
uint64_t random_at(uint64_t stream, uint64_t n) {
  uint64_t z = stream * 0xd1342543de82ef95ull + (n + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
uint64_t stream_of(uint64_t seed, int64_t epoch) { return random_at(seed, static_cast<uint64_t>(epoch)); }
// Even enough: a range is far below 2^64.
int64_t below(uint64_t random, int64_t range) {
  return static_cast<int64_t>(random % static_cast<uint64_t>(range));
}

struct Place {
  int64_t epoch, index;
};
Place read_place(const nlohmann::json& j, int64_t batches) {
  const auto number = [&](const char* key) {
    return j.is_object() && j.contains(key) && j[key].is_number_integer() ? j[key].get<int64_t>() : -1;
  };
  const Place p{number("epoch"), number("index")};
  if (p.epoch < 0 || p.index < 0 || p.index > batches)
    throw ArgumentError("this is no position in the data: " + j.dump(),
                        {{"batches of an epoch", std::to_string(batches)}},
                        "Resume with the same data and batch size.");
  return p;
}
nlohmann::json write_place(int64_t epoch, int64_t index) { return {{"epoch", epoch}, {"index", index}}; }

}  // namespace

TensorData::TensorData(Batch tensors, BatchOptions options)
    : tensors_(std::move(tensors)), options_(options) {
  if (tensors_.empty()) throw ArgumentError("a data set without a tensor");
  for (const auto& t : tensors_) {
    if (!t.defined() || t.dim() == 0 || !t.is_cpu())
      throw ArgumentError("a data set is made of tensors of the CPU with at least one dimension");
    if (t.size(0) != tensors_[0].size(0))
      throw ArgumentError(
          "the tensors of a data set must have the same number of rows",
          {{"rows", std::to_string(tensors_[0].size(0)) + " and " + std::to_string(t.size(0))}});
  }
  rows_ = tensors_[0].size(0);
  if (options_.batch < 1) throw ArgumentError("a batch must have at least one row");
  if (batches_per_epoch() == 0)
    throw ArgumentError("the data set gives no batch",
                        {{"rows", std::to_string(rows_)}, {"batch", std::to_string(options_.batch)}},
                        "Use a smaller batch, or drop_last = false.");
  begin_epoch();
}

int64_t TensorData::batches_per_epoch() const {
  return (rows_ + (options_.drop_last ? 0 : options_.batch - 1)) / options_.batch;
}

void TensorData::begin_epoch() {
  std::vector<int64_t> order(static_cast<size_t>(rows_));
  std::iota(order.begin(), order.end(), 0);
  const uint64_t stream = stream_of(options_.seed, epoch_);
  if (options_.shuffle)
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1],
                order[static_cast<size_t>(below(random_at(stream, i), static_cast<int64_t>(i)))]);
  order_ = at::tensor(order, at::kLong);
}

std::optional<Batch> TensorData::next() {
  if (index_ == batches_per_epoch()) {
    ++epoch_, index_ = 0;
    begin_epoch();
    return std::nullopt;
  }
  const int64_t from = index_++ * options_.batch;
  const at::Tensor chosen = order_.narrow(0, from, std::min(options_.batch, rows_ - from));
  Batch out;
  for (const auto& t : tensors_) out.push_back(t.index_select(0, chosen));
  return out;
}

nlohmann::json TensorData::position() const { return write_place(epoch_, index_); }

void TensorData::seek(const nlohmann::json& position) {
  const Place p = read_place(position, batches_per_epoch());
  epoch_ = p.epoch, index_ = p.index;
  begin_epoch();
}

Tokens::Tokens(const std::string& text) : characters(text) {
  std::ranges::sort(characters, [](char a, char b) {
    return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
  });
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  all = encode(text);
}

std::vector<int64_t> Tokens::encode(std::string_view text) const {
  std::array<int64_t, 256> places{};
  places.fill(-1);
  for (size_t i = 0; i < characters.size(); ++i)
    places[static_cast<unsigned char>(characters[i])] = static_cast<int64_t>(i);
  std::vector<int64_t> out;
  out.reserve(text.size());
  for (const char c : text)
    if (const int64_t place = places[static_cast<unsigned char>(c)]; place >= 0) out.push_back(place);
  return out;
}

std::string Tokens::decode(const std::vector<int64_t>& tokens) const {
  std::string out;
  for (const int64_t t : tokens) out += characters.at(static_cast<size_t>(t));
  return out;
}

TextData::TextData(std::vector<int64_t> tokens, int64_t context, int64_t batch, uint64_t seed)
    : tokens_(at::tensor(tokens, at::kLong)), context_(context), batch_(batch), seed_(seed) {
  if (context < 1 || batch < 1) throw ArgumentError("context and batch must be at least 1");
  if (tokens_.size(0) <= context)
    throw ArgumentError("the text is too short: it has " + std::to_string(tokens_.size(0)) +
                            " tokens, a window takes " + std::to_string(context + 1),
                        {}, "Use a longer text or a smaller context.");
}

int64_t TextData::batches_per_epoch() const {
  return std::max<int64_t>(1, tokens_.size(0) / (context_ * batch_));
}

std::optional<Batch> TextData::next() {
  if (index_ == batches_per_epoch()) {
    ++epoch_, index_ = 0;
    return std::nullopt;
  }
  const uint64_t stream = stream_of(seed_, epoch_);
  at::Tensor x = at::empty({batch_, context_}, at::kLong), y = at::empty({batch_, context_}, at::kLong);
  const auto* from = tokens_.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < batch_; ++row) {
    const auto n = static_cast<uint64_t>(index_ * batch_ + row);
    const int64_t* start = from + below(random_at(stream, n), tokens_.size(0) - context_);
    std::copy_n(start, context_, x.mutable_data_ptr<int64_t>() + row * context_);
    std::copy_n(start + 1, context_, y.mutable_data_ptr<int64_t>() + row * context_);
  }
  ++index_;
  return Batch{x, y};
}

nlohmann::json TextData::position() const { return write_place(epoch_, index_); }

void TextData::seek(const nlohmann::json& position) {
  const Place p = read_place(position, batches_per_epoch());
  epoch_ = p.epoch, index_ = p.index;
}

}  // namespace tpubridge
