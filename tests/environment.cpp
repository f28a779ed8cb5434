// Part of every test binary: no kernel cache and no packed weights on disk unless a test makes them. A kernel that an
// earlier build compiled would pass for what this build compiles, and a user's own cache is not for tests to fill.
// Before main(), so that it also holds for a binary that is run by hand, and whatever the user has exported.
#include <cstdlib>

namespace {
[[maybe_unused]] const int kWithoutCache = setenv("HONE_CACHE", "off", /*overwrite=*/1);
[[maybe_unused]] const int kWithoutWeights = setenv("HONE_WEIGHTS", "off", /*overwrite=*/1);
}  // namespace
