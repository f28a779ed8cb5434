// Says which files these are without reading them: what is cached for a model is found again by it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/files/mapped_file.h"

namespace hone::model {

// SHA-256 over the format and of each file its size, its stamp (device, inode, times of modification and of change),
// its first MiB, where the header is, and 64 pieces of 16 KiB spread over the rest: 2 MiB a file whatever its size, 10
// ms.
std::string identity_of(std::string_view format, const std::vector<std::shared_ptr<const MappedFile>>& files);

}  // namespace hone::model
