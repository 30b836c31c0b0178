// Lowerings for accelerators, run on the CPU plugin: what does not need the hardware must be right here too.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"
#include "tpubridge/lower/table.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {
namespace {

using lower::Platform;
using trace::Node;
using trace::Ref;
using trace::Value;

std::vector<uint16_t> narrow(const std::vector<float>& values) {  // to bf16, exactly
  std::vector<uint16_t> out;
  for (float v : values) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    EXPECT_EQ(bits & 0xffff, 0u) << v;
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}
std::vector<float> widened(const std::vector<uint16_t>& values) {
  std::vector<float> out;
  for (uint16_t v : values) {
    const uint32_t bits = static_cast<uint32_t>(v) << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    out.push_back(f);
  }
  return out;
}
Value upload_narrow(const std::vector<float>& values, std::vector<int64_t> dims) {
  return to_device(narrow(values).data(), Shape{DType::bf16, std::move(dims)}, {}, 0);
}

struct Ran {
  std::string text;
  std::vector<pjrt::Buffer> results;
};
Ran run(std::vector<Value> wanted, const std::vector<Value>& inputs, Platform platform) {
  const auto graph = trace::collect(std::move(wanted), /*held_too=*/false);
  Ran out{lower::program(graph, {}, platform), {}};
  std::vector<const pjrt::Buffer*> arguments;
  for (const auto& i : inputs) arguments.push_back(&buffer_of(*i.node(), 0));
  out.results = client().compile({out.text}).execute(arguments);
  return out;
}

// Means a hundred times the deviation: sums about zero would have no digits left for the variance.
TEST(OtherPlatforms, BatchStatisticsInOnePass) {
  const std::vector<float> at{992, 1000, 1004, 1008, 996, 1000, 992, 1016};
  std::vector<float> x;
  for (float v : at) x.insert(x.end(), {v, v / 256 - 4});  // two channels
  double mean[2] = {}, variance[2] = {};
  for (size_t i = 0; i < x.size(); ++i) mean[i % 2] += static_cast<double>(x[i]) / 8;
  for (size_t i = 0; i < x.size(); ++i) variance[i % 2] += std::pow(x[i] - mean[i % 2], 2) / 8;

  const Value in = upload_narrow(x, {8, 2});
  const Shape per_channel{DType::f32, {2}};
  const Value norm = Node::make(lower::find("tpubridge::batch_norm"), {in},
                                {Ref{0}, trace::Arg{}, trace::Arg{}, trace::Arg{}, trace::Arg{},
                                 trace::Arg{true}, trace::Arg{0.1}, trace::Arg{0.0}},
                                {{DType::bf16, {8, 2}}, per_channel, per_channel}, 0, DType::bf16);
  for (const Platform p : {Platform::cuda, Platform::tpu, Platform::cpu}) {
    const auto got = run({Value(norm.node(), 1), Value(norm.node(), 2)}, {in}, p).results;
    for (size_t c = 0; c < 2; ++c) {
      EXPECT_NEAR(got[0].to_vector<float>()[c], mean[c], 1e-6 * std::abs(mean[c]) + 1e-7);
      EXPECT_NEAR(got[1].to_vector<float>()[c] * std::sqrt(variance[c]), 1, 1e-5);
    }
  }
}

TEST(OtherPlatforms, ProductsOfNarrowFloatsRoundOnce) {
  // 256 · 256 and 300 ones: 65,836 in f32, 65,536 where the sum itself were kept in bf16.
  std::vector<float> row(301, 1);
  row[0] = 256;
  const Value a = upload_narrow(row, {1, 301}), b = upload_narrow(row, {301, 1});
  const Value y = Node::make(lower::find("mm"), {a, b}, {Ref{0}, Ref{1}, int64_t{0}}, {{DType::bf16, {1, 1}}},
                             0, DType::bf16);
  for (const Platform p : {Platform::cuda, Platform::tpu}) {
    const Ran ran = run({y}, {a, b}, p);
    EXPECT_EQ(widened(ran.results[0].to_vector<uint16_t>())[0],
              66048.0f);  // the nearest of 65,536 and 66,048
    EXPECT_EQ(ran.text.find("-> tensor<1x1xf32>") == std::string::npos, p == Platform::cuda);
  }
}

// The end of a language model: logits, the gradient of their loss, and its products. With 67 words the logits
// are cut from 72, and their gradient is wanted with 72 again: computed so, not padded.
TEST(OtherPlatforms, GradientsOfPaddedProductsArePaddedByMasks) {
  constexpr int64_t rows = 128, width = 64, words = 67;
  const Shape logits{DType::f32, {rows, words}}, scalar{DType::f32, {}};
  auto some = [](int64_t n, int64_t step) {
    std::vector<float> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<float>((i * step) % 13 - 6) / 8);
    return out;
  };
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < rows; ++i) targets.push_back((i * 5) % words);
  const Value x = upload_narrow(some(rows * width, 7), {rows, width});
  const Value weight = upload_narrow(some(width * words, 5), {width, words});
  const Value target = to_device(targets.data(), Shape{DType::s64, {rows}}, {}, 0);
  const float one = 1;
  const Value g = to_device(&one, scalar, {}, 0);

  auto op = [](const char* name, std::vector<Value> in, std::vector<trace::Arg> args,
               std::vector<Shape> out) {
    const DType common = out[0].dtype;
    return Node::make(lower::find(name), std::move(in), std::move(args), std::move(out), 0, common);
  };
  const trace::Arg none, to_mean{int64_t{1}}, last{int64_t{1}}, ignore{int64_t{-100}};
  const Value cut = op("mm", {x, weight}, {Ref{0}, Ref{1}}, {{DType::bf16, {rows, words}}});
  const Value wide = op("tpubridge::convert", {cut}, {Ref{0}}, {logits});
  const Value y = op("_log_softmax", {wide}, {Ref{0}, last, false}, {logits});
  const Value loss =
      op("nll_loss_forward", {y, target}, {Ref{0}, Ref{1}, none, to_mean, ignore}, {scalar, scalar});
  const Value dy = op("nll_loss_backward", {g, y, target, Value(loss.node(), 1)},
                      {Ref{0}, Ref{1}, Ref{2}, none, to_mean, ignore, Ref{3}}, {logits});
  const Value dwide = op("_log_softmax_backward_data", {dy, y}, {Ref{0}, Ref{1}, last, DType::f32}, {logits});
  const Value d = op("tpubridge::convert", {dwide}, {Ref{0}}, {cut.shape()});
  const Value turned = op("tpubridge::view", {weight},
                          {Ref{0}, std::vector<int64_t>{width, words}, std::vector<int64_t>{words, 1},
                           std::vector<int64_t>{words, width}, std::vector<int64_t>{1, words}, int64_t{0}},
                          {{DType::bf16, {words, width}}});
  const Value dx = op("mm", {d, turned}, {Ref{0}, Ref{1}}, {{DType::bf16, {rows, width}}});
  const Value columns = op("tpubridge::view", {d},
                           {Ref{0}, std::vector<int64_t>{rows, words}, std::vector<int64_t>{words, 1},
                            std::vector<int64_t>{words, rows}, std::vector<int64_t>{1, words}, int64_t{0}},
                           {{DType::bf16, {words, rows}}});
  const Value dweight = op("mm", {columns, x}, {Ref{0}, Ref{1}}, {{DType::bf16, {words, width}}});

  const std::vector<Value> inputs{x, weight, target, g};
  const Ran padded = run({dx, dweight}, inputs, Platform::cuda);
  const Ran plain = run({dx, dweight}, inputs, Platform::tpu);
  EXPECT_THAT(padded.text, testing::Not(testing::HasSubstr("(tensor<128x67xbf16>, tensor<bf16>)")));
  EXPECT_THAT(padded.text, testing::Not(testing::HasSubstr("(tensor<67x128xbf16>, tensor<bf16>)")));
  EXPECT_THAT(padded.text, testing::HasSubstr("tensor<128x72xbf16>"));
  for (size_t r = 0; r < 2; ++r) {
    const auto got = widened(padded.results[r].to_vector<uint16_t>());
    const auto want = widened(plain.results[r].to_vector<uint16_t>());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-4) << i;  // of up to 0.03
  }
}

}  // namespace
}  // namespace tpubridge::exec
