// See verify.h. The passes are apart because each kind of mistake has its own proof: structure by inspection, registers
// by walking every unrolled copy (their indices are constants there), memory by symbolic facts (extents are
// parameters).
#include "kernels/ir/verify.h"

#include "kernels/ir/text.h"
#include "kernels/ir/verify_internal.h"

namespace hone::ir {

Status verify(const Kernel& kernel) {
  HONE_RETURN_IF_ERROR(verify_structure(kernel));
  HONE_RETURN_IF_ERROR(verify_registers(kernel));
  return verify_bounds(kernel);
}

Status refuse(const Kernel& kernel, const Stmt& statement, const std::string& what) {
  return invalid_argument("kernel '" + kernel.name + "': in `" + print_head(kernel, statement) + "`: " + what);
}

}  // namespace hone::ir
