// What a loaded module is to its user: names, sizes, modes, saving.
#include <gmock/gmock.h>

#include "tests/load/exports.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(LoadedModule, HasItsPythonNames) {
  auto model = load(export_path("mutates"));
  EXPECT_THAT(model->named_parameters().keys(), ElementsAre("l.weight", "l.bias"));
  EXPECT_THAT(model->named_buffers().keys(), ElementsAre("count", "sum"));
  EXPECT_THAT(model->input_names(), ElementsAre("x", "state.a", "state.b.0"));
  EXPECT_THAT(model->output_names(), ElementsAre("y", "parts.0", "parts.1.0", "none", "rows"));
  // Tied weights are one parameter.
  EXPECT_FALSE(load(export_path("decoder"))->named_parameters().contains("head.weight"));
}

TEST(LoadedModule, TakesAndGivesTrees) {
  const Reference python("mutates");
  auto model = load(export_path("mutates"));
  const auto x = python.all.at("in.x"), a = python.all.at("in.state.a").clone(),
             b = python.all.at("in.state.b.0");
  c10::impl::GenericDict state(c10::StringType::get(), c10::AnyType::get());
  state.insert(c10::IValue("a"), a);
  state.insert(c10::IValue("b"), c10::List<at::Tensor>({b}));
  const auto out = model->call({x, state});
  EXPECT_LT(distance(out["parts.1.0"], python.all.at("out.parts.1.0")), 1e-4);
  EXPECT_TRUE(out.value("none").isNone());
  EXPECT_EQ(out.value("rows").toInt(), 11);
  EXPECT_TRUE(torch::equal(a, 2 * python.all.at("in.state.a"))) << "the input is written";
  const auto tree = out.tree().toGenericDict();
  EXPECT_TRUE(
      torch::equal(tree.at(c10::IValue("parts")).toTuple()->elements()[0].toTensor(), out["parts.0"]));
}

TEST(LoadedModule, SizesOutsideTheRange) {
  auto model = load(export_path("dynamic"));
  const auto run = [&](std::vector<int64_t> x, std::vector<int64_t> y) {
    return [=] { (void)model->call({torch::ones(x), torch::ones(y)}); };
  };
  EXPECT_NO_THROW(run({64, 4, 8}, {64, 2, 8})());
  EXPECT_THAT(run({100, 4, 8}, {100, 2, 8}),
              ThrowsMessage<ArgumentError>(
                  AllOf(HasSubstr("x, dimension 0"), HasSubstr("must be in 1..64, got 100"))));
  EXPECT_THAT(run({3, 4, 8}, {4, 2, 8}),
              ThrowsMessage<ArgumentError>(HasSubstr("must be 3 as in x, dimension 0")));
  EXPECT_THAT(run({3, 4, 9}, {3, 2, 8}), ThrowsMessage<ArgumentError>(HasSubstr("must be 8, got 9")));
  EXPECT_THAT(run({3, 4}, {3, 2, 8}),
              ThrowsMessage<ArgumentError>(HasSubstr("2 dimensions, the model takes 3")));
}

TEST(LoadedModule, WrongCalls) {
  auto model = load(export_path("mlp"));
  const auto x = torch::ones({4, 6});
  EXPECT_THAT([&] { (void)model->call({}); },
              ThrowsMessage<ArgumentError>(HasSubstr("input x: it is missing")));
  EXPECT_THAT(
      [&] {
        (void)model->call({x, x});
      },
      ThrowsMessage<ArgumentError>(HasSubstr("the model takes 1")));
  EXPECT_THAT(
      [&] {
        (void)model->call({x}, {{"x", x}});
      },
      ThrowsMessage<ArgumentError>(HasSubstr("given twice")));
  EXPECT_THAT(
      [&] {
        (void)model->call({}, {{"xx", x}});
      },
      ThrowsMessage<ArgumentError>(HasSubstr("no input of this name")));
  EXPECT_THAT(
      [&] {
        (void)model->forward(torch::ones({4, 6}, torch::kLong));
      },
      ThrowsMessage<ArgumentError>(HasSubstr("the model takes float32")));
  EXPECT_THAT([&] { (void)model->call({int64_t{3}}); },
              ThrowsMessage<ArgumentError>(HasSubstr("a tensor is wanted")));
  EXPECT_THAT([&] { (void)model->call({x})["y"]; }, ThrowsMessage<ArgumentError>(HasSubstr("it gives out")));
}

// As exported at first; then train() and eval() decide.
TEST(LoadedModule, Modes) {
  auto model = load(export_path("conv"));
  EXPECT_TRUE(model->is_training());
  const auto x = torch::randn({2, 3, 12, 12});
  const auto trained = model->forward(x);
  model->eval();
  const auto mean = model->named_buffers()["n.running_mean"].clone();
  const auto still = model->forward(x);
  EXPECT_TRUE(torch::equal(mean, model->named_buffers()["n.running_mean"]));
  EXPECT_GT(distance(trained, still), 1e-3);
  model->train();
  EXPECT_LT(distance(model->forward(x), trained), 1e-5);
  EXPECT_FALSE(torch::equal(mean, model->named_buffers()["n.running_mean"]));
}

TEST(LoadedModule, WritingItsWeightsLeavesTheFileAlone) {
  const std::string before = read_file(export_path("mlp"));
  {
    const torch::NoGradGuard no_grad;
    for (auto& p : load(export_path("mlp"))->parameters()) p.fill_(7);
  }
  EXPECT_TRUE(before == read_file(export_path("mlp")));
}

TEST(LoadedModule, Saves) {
  const TempFolder folder;
  for (const char* name : {"mlp", "decoder", "llama", "mutates"}) {
    auto model = load(export_path(name));
    model->to(tpu());
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.mul_(1.5);
    }
    const Path path = folder.path() / (std::string(name) + ".pt2");
    model->save(path);
    auto again = load(path);
    EXPECT_EQ(again->named_parameters().keys(), model->named_parameters().keys());
    for (const auto& p : model->named_parameters())
      EXPECT_TRUE(torch::equal(p.value().cpu(), again->named_parameters()[p.key()]));
    model->save(path);  // over the file that is mapped
    EXPECT_TRUE(torch::equal(again->parameters()[0], model->parameters()[0].cpu()));
    if (const char* keep = std::getenv("KEEP_SAVED"))
      std::filesystem::copy_file(path, Path(keep) / path.filename());
  }
  auto half = load(export_path("mlp"));
  half->to(torch::kBFloat16);
  EXPECT_THAT([&] { half->save(folder.path() / "half.pt2"); },
              ThrowsMessage<ArgumentError>(HasSubstr("Convert the module back")));
}

// As in Python: a type is for what is floating point.
TEST(LoadedModule, AnotherTypeLeavesIndicesAlone) {
  auto bert = load(export_path("bert"));
  const auto ids = bert->named_buffers()["embeddings.position_ids"].clone();
  bert->to(torch::kBFloat16);
  EXPECT_EQ(bert->parameters()[0].scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(bert->named_buffers()["embeddings.position_ids"], ids));
  EXPECT_EQ(bert->named_buffers()["embeddings.position_ids"].scalar_type(), torch::kLong);
  {
    const torch::NoGradGuard no_grad;
    const Reference text("bert");
    const auto results = bert->call({}, text.with("in."));
    for (const auto& [name, want] : text.with("out."))
      EXPECT_LT((results[name].to(torch::kFloat) - want.toTensor()).abs().max().item<double>(), 0.15) << name;
  }
  bert->to(tpu(), torch::kHalf);
  EXPECT_EQ(bert->parameters()[0].scalar_type(), torch::kHalf);
  EXPECT_EQ(bert->named_buffers()["embeddings.position_ids"].scalar_type(), torch::kLong);
  EXPECT_TRUE(torch::equal(bert->named_buffers()["embeddings.position_ids"].cpu(), ids));

  const Reference python("mutates");
  auto model = load(export_path("mutates"));
  const auto count = model->named_buffers()["count"].item<int64_t>();
  auto inputs = python.with("in.");
  for (auto& [name, value] : inputs) value = value.toTensor().to(torch::kBFloat16);
  model->to(torch::kBFloat16);
  const auto y = model->call({}, inputs)["y"];
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_LT((y.to(torch::kFloat) - python.all.at("out.y")).abs().max().item<double>(), 0.2);
  EXPECT_EQ(model->named_buffers()["count"].scalar_type(), torch::kLong);
  EXPECT_EQ(model->named_buffers()["count"].item<int64_t>(), count + 1);
}

// {"a.b": x, "a": {"b": y}} gives one name twice.
TEST(LoadedModule, OutputsByPlace) {
  const auto x = torch::ones({2}), y = torch::zeros({2});
  const Outputs out({"a.b", "a.b", "n"}, {x, y, int64_t{3}}, {});
  EXPECT_TRUE(torch::equal(out[size_t{0}], x));
  EXPECT_TRUE(torch::equal(out[size_t{1}], y));
  EXPECT_THAT([&] { (void)out[size_t{2}]; }, ThrowsMessage<ArgumentError>(HasSubstr("is no tensor")));
  EXPECT_THAT([&] { (void)out[size_t{3}]; }, ThrowsMessage<ArgumentError>(HasSubstr("gives 3 values")));
}

// A condition is read on the host, which a compiled step cannot do again by itself.
TEST(LoadedModule, ConditionsAreRefusedInCompiledSteps) {
  auto model = load(export_path("cond"));
  model->to(tpu());
  auto step = compile([&](const at::Tensor& x) { return model->forward(x); }, {.modules = {model}});
  EXPECT_THROW((void)step(torch::ones({3, 4}).to(tpu())), Error);
}

// The file may be gone while the module lives, and the module while its weights live.
TEST(LoadedModule, OutlivesItsFile) {
  const TempFolder folder;
  const Path path = folder.path() / "m.pt2";
  std::filesystem::copy_file(export_path("mlp"), path);
  auto model = load(path);
  std::filesystem::remove(path);
  const auto weight = model->parameters()[0];
  const auto want = model->forward(torch::ones({4, 6}));
  EXPECT_TRUE(torch::equal(model->forward(torch::ones({4, 6})), want));
  model.reset();
  EXPECT_EQ(weight.sum().isnan().item<bool>(), false);
}

}  // namespace
}  // namespace tpubridge
