//! Types that travel.
