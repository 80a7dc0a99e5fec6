// As common_headers.h, for sources of tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common_headers.h"
