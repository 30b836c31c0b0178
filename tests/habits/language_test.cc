// Programs about text: loops over time written by hand, lengths that vary, caches that grow.
#include <random>

#include "tests/habits/program.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

// A character model with the loop over time written by hand, cell by cell.
TEST(Habits, CharRnnByHand) {
  Habit{}.expect_same([](Place& p) {
    const int64_t hidden = 16, vocabulary = 12, time = 6, batch = 4;
    nn::Embedding embedding(vocabulary, hidden);
    nn::LSTMCell lstm(hidden, hidden);
    nn::GRUCell gru(hidden, hidden);
    nn::Linear out(hidden, vocabulary);
    std::vector<Tensor> all;
    const auto add = [&](auto& m) {
      m->to(p.device);
      for (auto& w : m->parameters()) all.push_back(w);
    };
    add(embedding), add(lstm), add(gru), add(out);
    torch::optim::Adam optimizer(all, torch::optim::AdamOptions(5e-3));
    for (int step = 0; step < 7; ++step) {
      auto text = p.randint(vocabulary, {time + 1, batch});
      auto h = torch::zeros({batch, hidden}, p.device), c = torch::zeros_like(h), g = torch::zeros_like(h);
      Tensor loss = torch::zeros({}, p.device);
      for (int64_t t = 0; t < time; ++t) {
        std::tie(h, c) = lstm->forward(embedding->forward(text[t]), std::make_tuple(h, c));
        g = gru->forward(h, g);
        loss = loss + F::cross_entropy(out->forward(g), text[t + 1]);
      }
      loss = loss / time;
      optimizer.zero_grad();
      loss.backward();
      nn::utils::clip_grad_norm_(all, 1.0);
      optimizer.step();
      p.step({loss});
    }
    p.see(all);
    // Text from it, one character at a time, each read on the host.
    const torch::NoGradGuard quiet;
    auto h = torch::zeros({1, hidden}, p.device), c = torch::zeros_like(h), g = torch::zeros_like(h);
    int64_t next = 3;
    for (int t = 0; t < 8; ++t) {
      auto x = torch::full({1}, next, torch::dtype(torch::kLong).device(p.device));
      std::tie(h, c) = lstm->forward(embedding->forward(x), std::make_tuple(h, c));
      g = gru->forward(h, g);
      next = out->forward(g).argmax(1).item<int64_t>();
      p.see({torch::tensor(next)});
    }
  });
}

// Names to languages, letter by letter: each name has its length, parameters are moved by hand.
TEST(Habits, NamesOfAnyLength) {
  Habit{.settled = 20}.expect_same([](Place& p) {
    const int64_t letters = 9, hidden = 12, classes = 4;
    nn::Linear to_hidden(letters + hidden, hidden), to_output(letters + hidden, classes);
    std::vector<Tensor> all;
    for (auto* m : {&to_hidden, &to_output}) {
      (*m)->to(p.device);
      for (auto& w : (*m)->parameters()) all.push_back(w);
    }
    std::mt19937 random(2);
    for (int step = 0; step < 36; ++step) {
      const auto length = 3 + static_cast<int64_t>(random() % 10);
      const auto name = torch::one_hot(torch::randint(letters, {length, 1}, torch::kLong), letters)
                            .to(torch::kFloat)
                            .to(p.device);
      auto state = torch::zeros({1, hidden}, p.device);
      Tensor output;
      for (int64_t i = 0; i < length; ++i) {
        auto both = torch::cat({name[i], state}, 1);
        state = torch::tanh(to_hidden->forward(both));
        output = torch::log_softmax(to_output->forward(both), 1);
      }
      auto loss = F::nll_loss(output, p.randint(classes, {1}));
      for (auto& w : all)
        if (w.grad().defined()) w.grad().zero_();
      loss.backward();
      {
        const torch::NoGradGuard quiet;
        for (auto& w : all) w.add_(w.grad(), -0.05);
      }
      p.step({loss});
    }
    p.see(all);
  });
}

// The language model example: truncated backpropagation, states carried over, perplexity.
TEST(Habits, LanguageModelWithTruncatedBackpropagation) {
  Habit{.settled = 4}.expect_same([](Place& p) {
    const int64_t vocabulary = 20, embed = 12, hidden = 16, layers = 2, batch = 4, length = 6;
    nn::Embedding embedding(vocabulary, embed);
    nn::LSTM lstm(nn::LSTMOptions(embed, hidden).num_layers(layers).batch_first(true));
    nn::Linear linear(hidden, vocabulary);
    std::vector<Tensor> all;
    const auto add = [&](auto& m) {
      m->to(p.device);
      for (auto& w : m->parameters()) all.push_back(w);
    };
    add(embedding), add(lstm), add(linear);
    torch::optim::Adam optimizer(all, torch::optim::AdamOptions(2e-3));
    const auto corpus = torch::randint(vocabulary, {batch, 41}, torch::kLong).to(p.device);
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto h = torch::zeros({layers, batch, hidden}).to(p.device),
           c = torch::zeros({layers, batch, hidden}).to(p.device);
      for (int64_t i = 0; i + length < corpus.size(1); i += length) {
        auto inputs = corpus.slice(1, i, i + length), targets = corpus.slice(1, i + 1, i + 1 + length);
        h = h.detach(), c = c.detach();
        Tensor output;
        std::tuple<Tensor, Tensor> state;
        std::tie(output, state) = lstm->forward(embedding->forward(inputs), std::make_tuple(h, c));
        std::tie(h, c) = state;
        auto loss = F::cross_entropy(linear->forward(output.reshape({-1, hidden})), targets.reshape(-1));
        optimizer.zero_grad();
        loss.backward();
        nn::utils::clip_grad_norm_(all, 0.5);
        optimizer.step();
        p.step({loss, loss.detach().exp()});
      }
    }
    p.see(all);
    const torch::NoGradGuard quiet;
    auto prob = torch::ones({vocabulary}).to(p.device);
    auto input = prob.argmax(0).reshape({1, 1});
    p.see({input});
  });
}

struct AttendImpl : nn::Module {
  AttendImpl(int64_t size, int64_t heads)
      : heads(heads),
        qkv(size, 3 * size),
        out(size, size),
        up(size, 2 * size),
        down(2 * size, size),
        norm1(nn::LayerNormOptions({size})),
        norm2(nn::LayerNormOptions({size})) {
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }
  Tensor forward(const Tensor& x, std::pair<Tensor, Tensor>* cache) {
    const int64_t b = x.size(0), t = x.size(1), c = x.size(2);
    auto parts = qkv->forward(norm1->forward(x)).chunk(3, -1);
    const auto split = [&](const Tensor& y) { return y.view({b, t, heads, c / heads}).transpose(1, 2); };
    auto q = split(parts[0]), k = split(parts[1]), v = split(parts[2]);
    if (cache) {
      if (cache->first.defined()) k = torch::cat({cache->first, k}, 2), v = torch::cat({cache->second, v}, 2);
      *cache = {k, v};
    }
    auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(c / heads));
    if (t > 1) {
      auto mask = torch::ones({t, k.size(2)}, torch::dtype(torch::kBool).device(x.device())).triu(1);
      scores = scores.masked_fill(mask, -INFINITY);
    }
    auto y = scores.softmax(-1).matmul(v).transpose(1, 2).contiguous().view({b, t, c});
    auto h = x + out->forward(y);
    return h + down->forward(torch::gelu(up->forward(norm2->forward(h))));
  }
  int64_t heads;
  nn::Linear qkv, out, up, down;
  nn::LayerNorm norm1, norm2;
};
TORCH_MODULE(Attend);

// GPT: trained on windows of a text, then decoded with a cache that grows by cat, each token read.
TEST(Habits, GptWithACacheThatGrows) {
  Habit{.settled = 34}.expect_same([](Place& p) {
    const int64_t vocabulary = 24, size = 16, length = 10;
    nn::Embedding tokens(vocabulary, size), places(64, size);
    std::vector<Attend> blocks{Attend(size, 2), Attend(size, 2), Attend(size, 2)};
    nn::Linear head(nn::LinearOptions(size, vocabulary).bias(false));
    std::vector<Tensor> all;
    const auto add = [&](auto& m) {
      m->to(p.device);
      for (auto& w : m->parameters()) all.push_back(w);
    };
    add(tokens), add(places), add(head);
    for (auto& b : blocks) add(b);
    std::vector<Tensor> decay, rest;
    for (auto& w : all) (w.dim() > 1 ? decay : rest).push_back(w);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    auto none = std::make_unique<torch::optim::AdamWOptions>(1e-3);
    none->weight_decay(0);
    groups.emplace_back(decay);
    groups.emplace_back(rest, std::move(none));
    torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(1e-3));
    const auto forward = [&](const Tensor& ids, int64_t from, std::vector<std::pair<Tensor, Tensor>>* cache) {
      auto x = tokens->forward(ids) + places->forward(torch::arange(from, from + ids.size(1), ids.options()));
      for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i]->forward(x, cache ? &(*cache)[i] : nullptr);
      return head->forward(x);
    };
    const auto corpus = torch::randint(vocabulary, {200}, torch::kLong);
    for (int step = 0; step < 6; ++step) {
      std::vector<Tensor> x, y;
      auto begins = torch::randint(200 - length - 1, {4}, torch::kLong);
      for (int64_t i = 0; i < 4; ++i) {
        const auto at = begins[i].item<int64_t>();
        x.push_back(corpus.slice(0, at, at + length));
        y.push_back(corpus.slice(0, at + 1, at + 1 + length));
      }
      const double warm = 1e-3 * (step + 1) / 6;
      for (auto& g : optimizer.param_groups()) static_cast<torch::optim::AdamWOptions&>(g.options()).lr(warm);
      auto logits = forward(torch::stack(x).to(p.device), 0, nullptr);
      auto loss = F::cross_entropy(logits.view({-1, vocabulary}), torch::stack(y).to(p.device).view(-1));
      optimizer.zero_grad();
      loss.backward();
      nn::utils::clip_grad_norm_(all, 1.0);
      optimizer.step();
      p.step({loss});
    }
    const torch::NoGradGuard quiet;
    std::vector<std::pair<Tensor, Tensor>> cache(blocks.size());
    auto ids = corpus.slice(0, 0, 5).unsqueeze(0).to(p.device);
    auto logits = forward(ids, 0, &cache).select(1, -1);
    for (int i = 0; i < 30; ++i) {
      auto next = logits.argmax(-1, true);
      ids = torch::cat({ids, next}, 1);
      p.step({next, logits});
      if (next.item<int64_t>() == -1) break;
      logits = forward(next, ids.size(1) - 1, &cache).select(1, -1);
    }
    p.see({ids});
  });
}

// The whole text so far goes through the model for every new token, as first versions do.
TEST(Habits, GptWithoutACache) {
  Habit{.settled = 20}.expect_same([](Place& p) {
    const int64_t vocabulary = 24, size = 16;
    nn::Embedding tokens(vocabulary, size);
    Attend block(size, 2);
    tokens->to(p.device);
    block->to(p.device);
    const torch::NoGradGuard quiet;
    auto ids = p.randint(vocabulary, {1, 4});
    for (int i = 0; i < 24; ++i) {
      auto window = ids.size(1) > 20 ? ids.slice(1, ids.size(1) - 20) : ids;
      auto logits = block->forward(tokens->forward(window), nullptr);
      logits =
          logits.index({torch::indexing::Slice(), -1, torch::indexing::Slice()}).matmul(tokens->weight.t());
      auto v = std::get<0>(torch::topk(logits, 5));
      logits.masked_fill_(logits < v.select(1, -1).unsqueeze(1), -INFINITY);
      auto probabilities = F::softmax(logits, -1);
      auto next = probabilities.argmax(-1, true);
      ids = torch::cat({ids, next}, 1);
      p.step({probabilities, next});
    }
  });
}

// Beam search: hypotheses that grow, are chosen and put in another order.
TEST(Habits, BeamSearch) {
  Habit{.settled = 16}.expect_same([](Place& p) {
    const int64_t words = 11, beams = 3;
    nn::Embedding embedding(words, 8);
    nn::GRUCell cell(8, 8);
    nn::Linear out(8, words);
    for (nn::Module* m : std::initializer_list<nn::Module*>{embedding.get(), cell.get(), out.get()})
      m->to(p.device);
    const torch::NoGradGuard quiet;
    auto sequences = torch::zeros({beams, 1}, torch::dtype(torch::kLong).device(p.device));
    auto scores = torch::zeros({beams}, p.device), state = p.randn({beams, 8});
    scores.index_put_({torch::indexing::Slice(1)}, -1e9);
    for (int i = 0; i < 20; ++i) {
      state = cell->forward(embedding->forward(sequences.select(1, -1)), state);
      auto all = (F::log_softmax(out->forward(state), 1) + scores.unsqueeze(1)).view(-1);
      auto [best, at] = all.topk(beams);
      auto beam = torch::floor_divide(at, words), word = at % words;
      sequences = torch::cat({sequences.index_select(0, beam), word.unsqueeze(1)}, 1);
      state = state.index_select(0, beam);
      scores = best;
      p.step({scores, sequences});
    }
  });
}

}  // namespace
}  // namespace tpubridge
