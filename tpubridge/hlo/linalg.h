// Matrix products, factorisations and Fourier transforms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// How exact a product of floats is: on a TPU one, three or six bf16 passes for f32.
enum class Precision { default_, high, highest };

// Dimensions of a product: batch ones go together, contracting ones are summed over. The result has the batch
// dimensions, then what is left of lhs, then what is left of rhs.
struct DotDims {
  std::vector<int64_t> lhs_contract, rhs_contract;
  std::vector<int64_t> lhs_batch = {}, rhs_batch = {};
};

// The exact way a product is computed, where the backend offers it. Types as MLIR spells them: "f32", "tf32".
struct DotAlgorithm {
  std::string lhs_type, rhs_type, accumulation_type;
  int64_t lhs_components = 1, rhs_components = 1, primitive_operations = 1;
  bool allow_imprecise_accumulation = false;
};

struct DotOptions {
  Precision lhs_precision = Precision::default_, rhs_precision = Precision::default_;
  std::optional<DType> result = {};  // element type of the result; left out: that of lhs
  std::optional<DotAlgorithm> algorithm = {};
};
[[nodiscard]] Value dot_general(Value lhs, Value rhs, const DotDims& dims, const DotOptions& options = {});

// Of [..., n, n] symmetric (Hermitian) matrices: the lower or upper triangle is read.
[[nodiscard]] Value cholesky(Value a, bool lower);

enum class TransposeA { no, transpose, adjoint };
struct TriangularSolve {
  bool left_side = true;  // op(a)·x = b, else x·op(a) = b
  bool lower = true;
  bool unit_diagonal = false;
  TransposeA transpose_a = TransposeA::no;
};
[[nodiscard]] Value triangular_solve(Value a, Value b, const TriangularSolve& options);

enum class FftType { fft, ifft, rfft, irfft };
// Over the last length.size() dimensions, 1 to 3 of them.
[[nodiscard]] Value fft(Value x, FftType type, List<int64_t> length);

}  // namespace tpubridge::hlo
