#include "report/held_out.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dpo::report {
namespace {

using Verdict = HeldOutComparison::Verdict;
using Runs = std::vector<HeldOut>;
using Notes = std::vector<std::string>;

TEST(HeldOut, SetsThatAreTheSame) {
  for (const Runs& runs :
       {Runs{{16, "a"}, {16, "a"}}, Runs{{16, "a"}, {0, ""}}, Runs{{16, ""}, {0, ""}}, Runs{}}) {
    const HeldOutComparison compared = compare_held_out(runs);
    EXPECT_EQ(compared.verdict, Verdict::same);
    EXPECT_EQ(compared.text, "");
    EXPECT_EQ(compared.notes, Notes(runs.size()));
  }
}

TEST(HeldOut, SetsThatDiffer) {
  const HeldOutComparison sizes = compare_held_out(Runs{{16, "a"}, {5, "b"}, {16, "a"}, {0, ""}});
  EXPECT_TRUE(sizes.differ());
  EXPECT_EQ(sizes.text, "different held-out sets: 5 and 16 examples; not comparable");
  EXPECT_EQ(sizes.notes, (Notes{"set 1", "set 2", "set 1", ""}));
  EXPECT_EQ(compare_held_out(Runs{{5, "a"}, {16, "b"}, {1600, "c"}}).text,
            "different held-out sets: 5, 16 and 1,600 examples; not comparable");
  EXPECT_EQ(compare_held_out(Runs{{16, "a"}, {16, "b"}}).text,
            "different held-out sets: 16 examples each, but not the same ones; not comparable");
}

// Older runs have no digest, but their sizes can differ.
TEST(HeldOut, SetsThatWereNotRecorded) {
  EXPECT_TRUE(compare_held_out(Runs{{16, ""}, {5, ""}}).differ());
  const HeldOutComparison compared = compare_held_out(Runs{{16, ""}, {16, "a"}});
  EXPECT_EQ(compared.verdict, Verdict::unknown);
  EXPECT_EQ(compared.text,
            "each run was evaluated on 16 examples; an older dpo did not record which, so they may not be "
            "the same");
  EXPECT_EQ(compared.notes, (Notes{"set not recorded", ""}));
  EXPECT_EQ(compare_held_out(Runs{{16, ""}, {16, ""}}).verdict, Verdict::unknown);
}

TEST(HeldOut, DigestOfAPlan) {
  EXPECT_EQ(held_out_digest({{"held_out_sha256", "a"}}), "a");
  EXPECT_EQ(held_out_digest({{"held_out_sha256", 1}}), "");
  EXPECT_EQ(held_out_digest(nlohmann::json()), "");
}

}  // namespace
}  // namespace dpo::report
