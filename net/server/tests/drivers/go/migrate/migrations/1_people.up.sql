CREATE TABLE people (id int PRIMARY KEY, name text);
CREATE INDEX people_by_name ON people (name);
