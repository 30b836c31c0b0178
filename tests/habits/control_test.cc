// Programs that act: reinforcement learning, detection, clusters; much is decided by numbers of the host.
#include <deque>
#include <random>

#include "tests/habits/program.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

// PPO: an environment on the host, a buffer written row by row, advantages backwards, minibatches in random
// order.
TEST(Habits, Ppo) {
  Habit{.settled = 2, .tolerance = 5e-3}.expect_same([](Place& p) {
    nn::Sequential actor(nn::Linear(4, 12), nn::Tanh(), nn::Linear(12, 2)),
        critic(nn::Linear(4, 12), nn::Tanh(), nn::Linear(12, 1));
    actor->to(p.device);
    critic->to(p.device);
    auto log_std = torch::zeros({1, 2}, p.device).requires_grad_();
    std::vector<Tensor> all = actor->parameters();
    for (auto& w : critic->parameters()) all.push_back(w);
    all.push_back(log_std);
    torch::optim::Adam optimizer(all, torch::optim::AdamOptions(3e-3));
    const int64_t horizon = 24, minibatch = 8;
    auto state = torch::zeros({4});
    for (int iteration = 0; iteration < 5; ++iteration) {
      auto states = torch::zeros({horizon, 4}, p.device), actions = torch::zeros({horizon, 2}, p.device),
           rewards = torch::zeros({horizon}, p.device), values = torch::zeros({horizon + 1}, p.device),
           log_probs = torch::zeros({horizon, 1}, p.device), dones = torch::zeros({horizon}, p.device);
      {
        const torch::NoGradGuard quiet;
        for (int64_t t = 0; t < horizon; ++t) {
          auto s = state.to(p.device).unsqueeze(0);
          auto mu = actor->forward(s), std = log_std.exp().expand_as(mu);
          auto action = mu + std * p.randn({1, 2});
          auto log_prob = (-0.5 * ((action - mu) / std).pow(2) - log_std - 0.9189385).sum(-1, true);
          states[t] = s[0];
          actions[t] = action[0];
          values[t] = critic->forward(s)[0][0];
          log_probs[t] = log_prob[0];
          auto a = action.cpu();
          state = (0.9 * state + 0.1 * torch::cat({a[0], a[0].cos()})).clamp(-3, 3);
          rewards[t] = 1 - state.square().sum().item<float>();
          dones[t] = t % 11 == 10 ? 1.0F : 0.0F;
          if (t % 11 == 10) state.zero_();
        }
        values[horizon] = critic->forward(state.to(p.device).unsqueeze(0))[0][0];
      }
      auto advantages = torch::zeros({horizon}, p.device);
      auto running = torch::zeros({}, p.device);
      for (int64_t t = horizon - 1; t >= 0; --t) {
        auto delta = rewards[t] + 0.99 * values[t + 1] * (1 - dones[t]) - values[t];
        running = delta + 0.99 * 0.95 * (1 - dones[t]) * running;
        advantages[t] = running;
      }
      auto returns = advantages + values.slice(0, 0, horizon);
      advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8);
      for (int epoch = 0; epoch < 2; ++epoch) {
        auto order = torch::randperm(horizon, torch::kLong);
        for (int64_t i = 0; i < horizon; i += minibatch) {
          auto at = order.slice(0, i, i + minibatch).to(p.device);
          auto mu = actor->forward(states.index_select(0, at)), std = log_std.exp().expand_as(mu);
          auto log_prob =
              (-0.5 * ((actions.index_select(0, at) - mu) / std).pow(2) - log_std - 0.9189385).sum(-1, true);
          auto entropy = (log_std + 1.4189385).sum();
          auto ratio = (log_prob - log_probs.index_select(0, at)).exp();
          auto advantage = advantages.index_select(0, at).unsqueeze(1);
          auto surrogate = torch::min(ratio * advantage, torch::clamp(ratio, 0.8, 1.2) * advantage);
          auto value_loss =
              (returns.index_select(0, at).unsqueeze(1) - critic->forward(states.index_select(0, at)))
                  .pow(2)
                  .mean();
          auto loss = 0.5 * value_loss - surrogate.mean() - 0.01 * entropy;
          optimizer.zero_grad();
          loss.backward();
          nn::utils::clip_grad_norm_(all, 0.5);
          optimizer.step();
        }
      }
      p.step({advantages, returns, rewards});
    }
    p.see(all);
  });
}

// Deep Q-learning: a memory on the host, a greedy action read in each step, a second net that follows.
TEST(Habits, DeepQ) {
  Habit{.settled = 20}.expect_same([](Place& p) {
    nn::Sequential policy(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 3)),
        target(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 3));
    policy->to(p.device);
    target->to(p.device);
    const auto follow = [&](double tau) {
      const torch::NoGradGuard quiet;
      auto from = policy->named_parameters();
      for (auto& w : target->named_parameters()) w.value().mul_(1 - tau).add_(from[w.key()], tau);
    };
    follow(1);
    torch::optim::RMSprop optimizer(policy->parameters(), torch::optim::RMSpropOptions(1e-3));
    std::deque<std::tuple<Tensor, int64_t, float, Tensor, bool>> memory;
    std::mt19937 random(6);
    auto state = torch::ones({4});
    for (int step = 0; step < 60; ++step) {
      int64_t action = static_cast<int64_t>(random() % 3);
      if (random() % 4 != 0) {
        const torch::NoGradGuard quiet;
        action = std::get<1>(policy->forward(state.to(p.device).unsqueeze(0)).max(1)).item<int64_t>();
      }
      auto next = (state.roll(1) * 0.9 + 0.1 * static_cast<float>(action)).clone();
      memory.emplace_back(state, action, next.sum().item<float>(), next, step % 9 == 8);
      if (memory.size() > 24) memory.pop_front();
      state = step % 9 == 8 ? torch::ones({4}) : next;
      if (memory.size() < 6) continue;
      std::vector<Tensor> states, next_states;
      std::vector<int64_t> actions;
      std::vector<float> rewards, alive;
      for (int i = 0; i < 6; ++i) {
        const auto& [s, a, r, n, d] = memory[random() % memory.size()];
        states.push_back(s), next_states.push_back(n), actions.push_back(a), rewards.push_back(r),
            alive.push_back(!d);
      }
      auto q = policy->forward(torch::stack(states).to(p.device))
                   .gather(1, torch::tensor(actions).to(p.device).unsqueeze(1));
      auto best = std::get<0>(target->forward(torch::stack(next_states).to(p.device)).max(1)).detach();
      auto want = torch::tensor(rewards).to(p.device) + 0.9 * torch::tensor(alive).to(p.device) * best;
      auto loss = F::smooth_l1_loss(q, want.unsqueeze(1));
      optimizer.zero_grad();
      loss.backward();
      for (auto& w : policy->parameters()) w.grad().data().clamp_(-1, 1);
      optimizer.step();
      if (step % 10 == 9) follow(0.5);
      p.step({loss});
    }
    p.see(parameters_of(*target));
  });
}

// REINFORCE as the public example: probabilities kept over an episode of any length, then one backward pass,
// which is computed round by round.
TEST(Habits, Reinforce) {
  Habit{.settled = 36}.expect_same([](Place& p) {
    nn::Sequential policy(nn::Linear(4, 12), nn::ReLU(), nn::Linear(12, 2));
    policy->to(p.device);
    torch::optim::Adam optimizer(policy->parameters(), torch::optim::AdamOptions(1e-2));
    std::mt19937 random(7);
    for (int episode = 0; episode < 40; ++episode) {
      std::vector<Tensor> saved;
      std::vector<float> rewards;
      auto state = torch::full({4}, 0.1F * static_cast<float>(episode % 5));
      const int length = 4 + static_cast<int>(random() % 9);
      for (int t = 0; t < length; ++t) {
        auto probabilities = F::softmax(policy->forward(state.to(p.device).unsqueeze(0)), 1);
        const float draw = static_cast<float>(random() % 1000) / 1000;
        const int64_t action = probabilities[0][0].item<float>() > draw ? 0 : 1;
        saved.push_back(probabilities[0][action].log());
        state = state.roll(1) + (action ? 0.1F : -0.05F);
        rewards.push_back(state.sum().item<float>());
      }
      std::vector<float> returns;
      float sum = 0;
      for (auto r = rewards.rbegin(); r != rewards.rend(); ++r)
        returns.insert(returns.begin(), sum = *r + 0.99F * sum);
      auto weights = torch::tensor(returns).to(p.device);
      weights = (weights - weights.mean()) / (weights.std() + 1e-6);
      std::vector<Tensor> losses;
      for (size_t i = 0; i < saved.size(); ++i)
        losses.push_back(-saved[i] * weights[static_cast<int64_t>(i)]);
      optimizer.zero_grad();
      auto loss = torch::stack(losses).sum();
      loss.backward();
      optimizer.step();
      p.step({loss});
    }
    p.see(parameters_of(*policy));
  });
}

// Sizes chosen by masks on the device: positives of a YOLO head, hard examples, k-means with clusters of any
// size.
TEST(Habits, SizesThatDataDecides) {
  Habit{.settled = -1, .fallbacks = true}.expect_same([](Place& p) {
    auto points = p.randn({40, 2});
    auto centers = points.slice(0, 0, 4).clone();
    for (int step = 0; step < 12; ++step) {
      auto label = torch::cdist(points, centers).argmin(1);
      std::vector<Tensor> next;
      for (int64_t k = 0; k < 4; ++k) {
        auto members = points.index({label == k});
        next.push_back(members.size(0) ? members.mean(0) : centers[k]);
      }
      auto moved = torch::stack(next);
      const bool same = torch::allclose(moved, centers);
      centers = moved;
      p.step({centers, label});
      if (same && step > 8) break;
    }
    auto w = p.randn({2, 3}).requires_grad_();
    for (int step = 0; step < 12; ++step) {
      auto scores = points.roll(step, 0).matmul(w);
      auto hard = scores.masked_select(scores.detach() > 0.5);
      auto rows = torch::nonzero(scores.detach().select(1, 0) > 0).squeeze(1);
      auto loss = hard.square().mean() + scores.index_select(0, rows).sum() / 40;
      if (w.grad().defined()) w.grad().zero_();
      loss.backward();
      {
        const torch::NoGradGuard quiet;
        w -= 0.01 * w.grad();
      }
      p.step({loss, w});
    }
  });
}

// A simulation of small steps with single elements written by place, read now and then.
TEST(Habits, SimulationByPlaces) {
  Habit{.settled = 6, .tolerance = 5e-3}.expect_same([](Place& p) {
    auto field = torch::zeros({12, 12}, p.device), history = torch::zeros({64, 3}, p.device);
    field[6][6] = 1;
    auto velocity = torch::zeros_like(field);
    for (int64_t i = 0; i < 200; ++i) {
      auto around = field.roll(1, 0) + field.roll(-1, 0) + field.roll(1, 1) + field.roll(-1, 1) - 4 * field;
      velocity += 0.1 * around;
      velocity *= 0.999;
      field += 0.1 * velocity;
      field[0].zero_();
      field.index_put_({Slice(), -1}, 0);
      if (i % 10 == 0) field[3 + i % 5][4 + i % 3] += 0.01 * static_cast<double>(i);
      history[i % 64][0] = field[6][6];
      history[i % 64][1] = field.max();
      history.index_put_({i % 64, 2}, field.sum());
      if (i % 20 == 19) p.step({field, history});
    }
    p.see({history.slice(0, 10, 30, 3), field.diagonal(), field.index({Slice(None, None, 2), Slice(1, 9)})});
  });
}

}  // namespace
}  // namespace tpubridge
