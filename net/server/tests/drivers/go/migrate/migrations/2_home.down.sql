ALTER TABLE people DROP home;
DROP TYPE address;
