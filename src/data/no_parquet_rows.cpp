#include <fmt/format.h>

#include "base/error.h"
#include "data/rows.h"

namespace dpo::data {

void read_parquet(const std::filesystem::path& file, const TakeRows&) {
  throw UserError(
      fmt::format("{}: this program was built without Parquet support; build it with PYARROW=DIR "
                  "(the folder of Python's pyarrow; './run build' installs one if pip works), or write the "
                  "data as JSON lines",
                  file.string()));
}

}  // namespace dpo::data
