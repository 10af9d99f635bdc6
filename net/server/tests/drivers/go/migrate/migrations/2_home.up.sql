CREATE TYPE address (street text);
ALTER TABLE people ADD home frozen<address>;
