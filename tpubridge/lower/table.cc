// Gathers the families. Built inside a function: registration of the device runs in static initialisers.
#include "tpubridge/lower/table.h"

#include <algorithm>
#include <unordered_map>

namespace tpubridge::lower {

std::span<const Row> ctc_rows();
std::span<const Row> counted_rows();
std::span<const Row> drawn_rows();
std::span<const Row> fractional_rows();

namespace {

using Table = std::unordered_map<std::string_view, const Row*>;

const Table& table() {
  static const Table* rows = [] {
    auto* t = new Table;
    for (auto family : {view_rows(),
                        quantized_rows(),
                        unary_rows(),
                        binary_rows(),
                        ternary_rows(),
                        activation_rows(),
                        factory_rows(),
                        reduction_rows(),
                        matmul_rows(),
                        softmax_rows(),
                        norm_rows(),
                        index_rows(),
                        loss_rows(),
                        convolution_rows(),
                        pooling_rows(),
                        random_rows(),
                        layout_rows(),
                        rnn_rows(),
                        attention_rows(),
                        optimizer_rows(),
                        padding_rows(),
                        patch_rows(),
                        sampling_rows(),
                        distance_rows(),
                        scatter_rows(),
                        fourier_rows(),
                        resample_rows(),
                        embedding_bag_rows(),
                        margin_loss_rows(),
                        recurrent_rows(),
                        order_rows(),
                        unpooling_rows(),
                        special_rows(),
                        incomplete_gamma_rows(),
                        polynomial_rows(),
                        piecewise_rows(),
                        number_part_rows(),
                        flat_place_rows(),
                        adaptive_pooling_rows(),
                        smooth_resample_rows(),
                        cholesky_rows(),
                        lu_rows(),
                        qr_rows(),
                        spectral_rows(),
                        ctc_rows(),
                        counted_rows(),
                        drawn_rows(),
                        fractional_rows()})
      for (const Row& row : family) t->emplace(row.name, &row);
    return t;
  }();
  return *rows;
}

}  // namespace

const Row* find(std::string_view name) {
  const auto it = table().find(name);
  return it == table().end() ? nullptr : it->second;
}

const std::vector<const Row*>& all_rows() {
  static const auto* sorted = [] {
    auto* rows = new std::vector<const Row*>;
    for (const auto& [name, row] : table()) rows->push_back(row);
    std::sort(rows->begin(), rows->end(), [](auto* a, auto* b) { return a->name < b->name; });
    return rows;
  }();
  return *sorted;
}

}  // namespace tpubridge::lower
