#include "tpubridge/models/decoding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

namespace tpubridge::models {
namespace {

// Few lengths are compiled.
int64_t power_of_two(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(least, 8))));
}

int64_t longest_of(const CausalLM& model, const std::vector<std::vector<int64_t>>& prompts, int64_t tokens) {
  const DecoderConfig& config = model.config();
  int64_t longest = 0;
  for (const auto& prompt : prompts) {
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
    for (const int64_t id : prompt)
      if (id < 0 || id >= config.vocabulary)
        throw ArgumentError(
            "the tokenizer gives a token that the model does not have",
            {{"token", std::to_string(id)}, {"vocabulary", std::to_string(config.vocabulary)}},
            "The tokenizer is of another model.");
  }
  if (tokens > config.positions || longest + tokens > config.positions)
    throw ArgumentError("prompt and new tokens together are more than the model can be given",
                        {{"prompt", std::to_string(longest)},
                         {"tokens", std::to_string(tokens)},
                         {"positions", std::to_string(config.positions)}},
                        "Ask for fewer tokens, or give a shorter prompt.");
  return longest;
}

}  // namespace

Decoding::Decoding(const CausalLM& model, const std::vector<std::vector<int64_t>>& prompts, int64_t tokens,
                   const SamplingOptions& sampling, int64_t tokens_per_call)
    : step_(new Step{
          model, Sampler(sampling, model.device(), model.config().vocabulary, prompts), {}, 0, {}, {}}),
      compiled_(Call{step_.get()}, {.name = "generate"}),
      several_(Advance{step_.get()}, {.steps_per_call = tokens_per_call, .name = "generate, several tokens"}),
      tokens_per_call_(tokens_per_call) {
  const auto batch = static_cast<int64_t>(prompts.size());
  const int64_t longest = longest_of(model, prompts, tokens), most = model.config().positions;
  step_->places = std::min(power_of_two(longest + tokens), most);
  prompts_ = at::zeros({batch, std::min(power_of_two(longest), most)}, at::kLong);
  last_ = at::zeros({batch}, at::kLong);
  auto at_token = prompts_.accessor<int64_t, 2>();
  for (int64_t r = 0; r < batch; ++r) {
    const auto& prompt = prompts[static_cast<size_t>(r)];
    for (size_t i = 0; i < prompt.size(); ++i) at_token[r][static_cast<int64_t>(i)] = prompt[i];
    last_[r] = static_cast<int64_t>(prompt.size()) - 1;
  }
}

at::Tensor Decoding::next() {
  const at::NoGradGuard no_grad;
  if (!tokens_.defined()) return (tokens_ = prefill()).unsqueeze(0);
  if (tokens_per_call_ == 1) return next_one().unsqueeze(0);
  if (!step_->token.defined()) step_->token = tokens_.clone(), step_->position = positions_.clone();
  if (!step_->model.device().is_cpu()) return several_.many();
  std::vector<at::Tensor> made;
  for (int64_t i = 0; i < tokens_per_call_; ++i) made.push_back(step_->advance());
  return at::stack(made);
}

at::Tensor Decoding::next_one() {
  const auto out =
      step_->model.device().is_cpu() ? (*step_)(tokens_, positions_) : compiled_(tokens_, positions_);
  positions_ = out[1];
  return tokens_ = out[0];
}

at::Tensor Decoding::prefill() {
  const CausalLM& model = step_->model;
  const at::Device device = model.device();
  const int64_t batch = prompts_.size(0), length = prompts_.size(1);
  step_->cache = model.make_cache(batch, step_->places);
  const at::Tensor positions = at::arange(length, at::kLong).unsqueeze(0).repeat({batch, 1}).to(device);
  const at::Tensor hidden = model.hidden(prompts_.to(device), positions, &step_->cache, true);
  const at::Tensor rows = at::arange(batch, at::kLong).to(device);
  positions_ = (last_ + 1).unsqueeze(1).to(device);
  return step_->sampler.next(model.logits(hidden.index({rows, last_.to(device)})));
}

std::vector<at::Tensor> Decoding::Step::operator()(const at::Tensor& token, const at::Tensor& position) {
  const at::Tensor logits = model.logits(model.hidden(token, position, &cache, false)).squeeze(1);
  // Rows that are done go on until all are; those at the end of the cache stay there.
  return {sampler.next(logits), at::clamp_max(position + 1, places - 1)};
}

at::Tensor Decoding::Step::advance() {
  const auto out = (*this)(token, position);
  token.copy_(out[0]);
  position.copy_(out[1]);
  return out[0];
}

}  // namespace tpubridge::models
