// Matrices over finite fields whose sums are XOR, GF(2^8) and GF(2^16), as erasure codes need them. Pure.
#ifndef CAIRN_STORAGE_BASE_FIELD_MATRIX_H_
#define CAIRN_STORAGE_BASE_FIELD_MATRIX_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "storage/base/check.h"

namespace cairn {

template <typename Element>
using FieldRow = std::vector<Element>;
template <typename Element>
using FieldMatrix = std::vector<FieldRow<Element>>;

// row += other * factor. `multiply`: the field's product. REQUIRES: rows of one length.
template <typename Element, typename Multiply>
void AddRow(FieldRow<Element>& row, const FieldRow<Element>& other, Element factor, Multiply multiply) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] ^= multiply(other[i], factor);
}

// Gauss and Jordan. `invert`: of an element that is not 0. REQUIRES: square, with independent rows.
template <typename Element, typename Multiply, typename Invert>
FieldMatrix<Element> InvertedMatrix(FieldMatrix<Element> matrix, Multiply multiply, Invert invert) {
  const std::size_t size = matrix.size();
  FieldMatrix<Element> inverse(size, FieldRow<Element>(size));
  for (std::size_t i = 0; i < size; ++i) inverse[i][i] = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    while (pivot < size && matrix[pivot][column] == 0) ++pivot;
    CAIRN_CHECK(pivot < size);
    std::swap(matrix[pivot], matrix[column]);
    std::swap(inverse[pivot], inverse[column]);
    const Element scale = invert(matrix[column][column]);
    for (std::size_t i = 0; i < size; ++i) {
      matrix[column][i] = multiply(matrix[column][i], scale);
      inverse[column][i] = multiply(inverse[column][i], scale);
    }
    for (std::size_t row = 0; row < size; ++row) {
      const Element factor = matrix[row][column];
      if (row == column || factor == 0) continue;
      AddRow(matrix[row], matrix[column], factor, multiply);
      AddRow(inverse[row], inverse[column], factor, multiply);
    }
  }
  return inverse;
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_FIELD_MATRIX_H_
