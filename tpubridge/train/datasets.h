// Data sets: tensors, text, CSV and MNIST's IDX files. A file that is damaged, hostile or not what it should
// be gives a FileError with the place in it, never a crash and never an allocation that its size does not
// justify.
#pragma once

#include <memory>
#include <string>

#include "tpubridge/base/files.h"
#include "tpubridge/train/data.h"

namespace tpubridge {

struct BatchOptions {
  int64_t batch = 32;
  bool shuffle = true;    // another order in each epoch, which follows from the seed
  bool drop_last = true;  // leave out the last batch of an epoch where it is smaller (another program)
  uint64_t seed = 1;
};

// Rows of tensors of the CPU that have the same first size: the i-th of each belong together.
class TensorData final : public DataSource {
 public:
  explicit TensorData(Batch tensors, BatchOptions options = {});
  [[nodiscard]] std::optional<Batch> next() override;
  [[nodiscard]] nlohmann::json position() const override;
  void seek(const nlohmann::json& position) override;
  [[nodiscard]] int64_t batches_per_epoch() const override;
  [[nodiscard]] const Batch& tensors() const { return tensors_; }

 private:
  void begin_epoch();
  Batch tensors_;
  BatchOptions options_;
  int64_t rows_ = 0, epoch_ = 0, index_ = 0;  // index_: batches given in this epoch
  at::Tensor order_;
};

// A text as tokens: each distinct byte is one, numbered in the order of the bytes.
struct Tokens {
  explicit Tokens(const std::string& text);
  [[nodiscard]] std::vector<int64_t> encode(std::string_view text) const;  // unknown bytes are left out
  [[nodiscard]] std::string decode(const std::vector<int64_t>& tokens) const;
  std::string characters;
  std::vector<int64_t> all;
};

// Windows of a text at random places: batches {x, y} of [batch, context] tokens, y one token further on.
// An epoch has as many batches as cover the text once.
class TextData final : public DataSource {
 public:
  TextData(std::vector<int64_t> tokens, int64_t context, int64_t batch, uint64_t seed = 1);
  [[nodiscard]] std::optional<Batch> next() override;
  [[nodiscard]] nlohmann::json position() const override;
  void seek(const nlohmann::json& position) override;
  [[nodiscard]] int64_t batches_per_epoch() const override;

 private:
  at::Tensor tokens_;
  int64_t context_, batch_;
  uint64_t seed_;
  int64_t epoch_ = 0, index_ = 0;
};

// Numbers separated by commas, a row a line; a first line that holds a field that is no number is taken for
// names. Quotes around a field are allowed. FileError names line and column.
struct Csv {
  std::vector<std::string> names;  // empty where there was no such line
  at::Tensor values;               // f32 [rows, columns]
};
[[nodiscard]] Csv read_csv(const Path& path);

// An IDX file (the format of MNIST): the element type and sizes that it says.
[[nodiscard]] at::Tensor read_idx(const Path& path);

// The examples of a CSV file (the last column is the class, a whole number from 0 on) or of a pair of IDX
// files (images-idx3-ubyte; the labels' file has the same name with "labels-idx1" for "images-idx3"):
// {x f32 [n, features], y s64 [n]}. Pixels are divided by 255.
[[nodiscard]] Batch read_examples(const Path& path);

}  // namespace tpubridge
